"""DBOS: a workflow of steps. In `.peers/dbos`; `outside.py` has the command line.

Its page on steps: a step that was interrupted runs again, so a call of an outside service should be idempotent. A
workflow continues when a process of its executor id launches. Each trial has an executor id of its own, so that a
process recovers the work of its trial only. On SQLite, DBOS leaves `synchronous` at SQLite's default, FULL. `once`
stores the mark in a step before the act.
"""

from pathlib import Path

import outside
from dbos import DBOS, SetWorkflowID

PEER = {
    "system": "dbos",
    "packages": ["dbos"],
    "page": "https://docs.dbos.dev/python/tutorials/step-tutorial",
    "substrates": ["sqlite", "postgres"],
    "settings": {"SQLite": "synchronous=FULL, its default", "PostgreSQL": "synchronous_commit=on"},
    "configurations": {
        "documented": "a step for each effect",
        "key": "the same, with an idempotency key made of workflow id and effect",
        "lookup": "the same, with a lookup at the service before it sends",
        "once": "the same, with a step before it that stores a mark of the process, and a check by hand",
    },
    "cannot": [
        "say that a step was started: only results of steps are stored",
        "refuse a second attempt of a step after a crash, without a mark written by hand",
        "ask a person about an outcome: DBOS.recv waits, but recovery does not know that it should",
    ],
}


def launch(options, *, recover):
    """DBOS over the store of this trial; an inspection gets another executor id, so that it recovers nothing."""
    where = options.database or f"sqlite:///{Path(options.state, options.trial)}.sqlite"
    DBOS(
        config={
            "name": "evaluation",
            "system_database_url": where,
            "executor_id": options.trial if recover else f"{options.trial}-inspect",
            "application_version": "1",
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )

    @DBOS.step()
    def mark(n: int) -> str:
        return outside.PROCESS

    @DBOS.step()
    def act(n: int, marked: str) -> str:
        if options.configuration == "once":
            return outside.act_once(options, n, marked)
        return outside.act(options, n)

    @DBOS.workflow()
    def work(effects: int) -> list[str]:
        done = []
        for n in range(1, effects + 1):
            marked = mark(n) if options.configuration == "once" else ""
            done.append(act(n, marked))
        return done

    DBOS.launch()
    return work


def run(options):
    work = launch(options, recover=True)
    with SetWorkflowID(options.trial):  # a known id returns the handle of the workflow that is there
        handle = DBOS.start_workflow(work, options.effects)
    handle.get_result()


def inspect(options):
    launch(options, recover=False)
    steps = DBOS.list_workflow_steps(options.trial) or []
    names = [step["function_name"].split(".")[-1] for step in steps if step["error"] is None]
    done = range(1, names.count("act") + 1)
    return outside.states(done, range(1, names.count("mark") + 1), options.effects)


if __name__ == "__main__":
    outside.main(PEER, run=run, inspect=inspect)
