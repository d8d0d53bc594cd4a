"""Absurd: a task of steps on PostgreSQL. Its environment is `.peers/absurd`; `outside.py` has the command line.

Its README: a step's return value is stored and not computed again; "code outside steps may run again", and a step that
was interrupted runs again, for which it offers the task id as an idempotency key. A dead worker is found by the end
of its claim (`claim_timeout`; 120 s by default, 5 s here). Each trial has its own queue.
"""

import outside
import psycopg
from absurd_sdk import Absurd
from absurdctl import BUNDLED_SCHEMA_SQL

CLAIM = 5  # seconds
PEER = {
    "system": "absurd",
    "packages": ["absurd-sdk", "absurdctl"],
    "page": "https://earendil-works.github.io/absurd/concepts/",
    "substrates": ["postgres"],
    "settings": {"PostgreSQL": "synchronous_commit=on", "claim_timeout": "5 s"},
    "configurations": {
        "documented": "a step for each effect",
        "key": "the same, with an idempotency key made of task id and effect, as its README shows",
        "lookup": "the same, with a lookup at the service before it sends",
        "once": "the same, with a step before it that stores a mark of the process, and a check by hand",
    },
    "cannot": [
        "say that a step was started: only results of steps are stored",
        "refuse a second attempt of a step after a crash, without a mark written by hand",
        "run without PostgreSQL",
    ],
}


def application(options):
    queue = f"q{options.trial.replace('-', '_')}"[:40]
    with psycopg.connect(options.database, autocommit=True) as server:
        server.execute("select pg_advisory_lock(20261119)")
        if server.execute("select to_regnamespace('absurd')").fetchone()[0] is None:
            server.execute(BUNDLED_SCHEMA_SQL)
    app = Absurd(options.database, queue_name=queue)
    if queue not in app.list_queues():
        app.create_queue(queue)
    return app


def run(options):
    app = application(options)
    asked = []

    @app.register_task("work", default_max_attempts=20)
    def work(params, context):
        for n in range(1, params["effects"] + 1):
            try:
                step(context, n)
            except outside.Asked as doubt:
                asked.append(doubt.args[0])
                raise
        return "done"

    def step(context, n):
        if options.configuration == "once":
            marked = context.step(f"mark-{n}", lambda: outside.PROCESS)
            context.step(f"act-{n}", lambda: outside.act_once(options, n, marked))
        else:
            context.step(f"act-{n}", lambda: outside.act(options, n))

    spawned = app.spawn(
        "work", {"effects": options.effects}, idempotency_key=options.trial, retry_strategy={"kind": "none"}
    )
    while not asked:
        app.work_batch(worker_id=outside.PROCESS, claim_timeout=CLAIM, batch_size=1)
        if (found := app.fetch_task_result(spawned["task_id"])) and found.state == "completed":
            return
    raise outside.Asked(asked[0])


def inspect(options):
    app = application(options)
    with psycopg.connect(options.database) as server:
        rows = server.execute(f'select checkpoint_name from absurd."c_{app._queue_name}"').fetchall()
    names = [name for (name,) in rows]
    done = [int(name[4:]) for name in names if name.startswith("act-")]
    return outside.states(done, [int(name[5:]) for name in names if name.startswith("mark-")], options.effects)


if __name__ == "__main__":
    outside.main(PEER, run=run, inspect=inspect)
