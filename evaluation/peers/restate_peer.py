"""Restate: a workflow of `ctx.run` blocks, on its server. In `.peers/restate`; the command line is in `outside.py`.

Its page on journaled actions: every call of another service is wrapped in `ctx.run`, whose result is journaled; a block
that was interrupted runs again, and the page recommends idempotency keys. The server writes its log with the sync of
RocksDB (`rocksdb-disable-wal-fsync = false`, set explicitly) and is killed by no trial. Each trial has a service of its
own, at a port that stays the same.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import hypercorn.asyncio
import hypercorn.config
import outside
import restate

PEER = {
    "system": "restate",
    "packages": ["restate-sdk"],
    "page": "https://docs.restate.dev/develop/python/journaling-results",
    "substrates": ["server"],
    "settings": {"server": "rocksdb-disable-wal-fsync=false"},
    "configurations": {
        "documented": "a ctx.run for each effect",
        "key": "the same, with an idempotency key made of workflow key and effect",
        "lookup": "the same, with a lookup at the service before it sends",
        "once": "the same, with a ctx.run before it that stores a mark of the process, and a check by hand",
    },
    "cannot": [
        "refuse a second attempt of a block after a crash, without a mark written by hand: max_attempts counts errors",
        "decide by a probe whether a block whose outcome is unknown should run again",
        "run without a server",
    ],
}


def service(options):
    work = restate.Workflow(f"Work{options.trial}")

    @work.main()
    async def run(ctx: restate.WorkflowContext, effects: int) -> str:
        for n in range(1, effects + 1):
            if options.configuration == "once":
                mark = await ctx.run_typed(f"mark-{n}", lambda: outside.PROCESS)
                await ctx.run_typed(f"act-{n}", lambda n=n, mark=mark: once(n, mark))
            else:
                await ctx.run_typed(f"act-{n}", lambda n=n: outside.act(options, n))
        return "done"

    def once(n, mark):
        try:
            return outside.act_once(options, n, mark)
        except outside.Asked as asked:
            raise restate.TerminalError(f"effect {n}") from asked

    return restate.app([work])


def ask(method, url, body=None):
    given = {"Content-Type": "application/json", "Accept": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, given, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as failed:
        return failed.code, failed.read().decode()


def servers(options):
    return json.loads(Path(options.state, "restate.json").read_text())


async def run_async(options):
    server, place = servers(options), Path(options.state, f"{options.trial}.port")
    config = hypercorn.config.Config()
    if not place.exists():
        with socket.create_server(("127.0.0.1", 0)) as free:
            place.write_text(str(free.getsockname()[1]))
    config.bind = [f"127.0.0.1:{place.read_text()}"]
    config.loglevel = "ERROR"
    serving = asyncio.create_task(hypercorn.asyncio.serve(service(options), config))
    body = {"uri": f"http://{config.bind[0]}", "force": True}
    while (await asyncio.to_thread(ask, "POST", f"{server['admin']}/deployments", body))[0] not in (200, 201):
        await asyncio.sleep(0.05)
    name = f"Work{options.trial}"
    sent = f"{server['ingress']}/{name}/{options.trial}/run/send"
    await asyncio.to_thread(ask, "POST", sent, options.effects)  # the same key again is the same workflow
    attach = f"{server['ingress']}/restate/workflow/{name}/{options.trial}/attach"
    status, answer = await asyncio.to_thread(ask, "GET", attach)
    serving.cancel()
    if status != 200:
        raise outside.Asked(int(json.loads(answer)["message"].split()[-1]))


def inspect(options):
    name = f"Work{options.trial}"
    query = f"""select j.entry_type, j.name, j.entry_json from sys_journal j join sys_invocation i on i.id = j.id
                where i.target_service_name = '{name}' order by j.index"""
    _, answer = ask("POST", f"{servers(options)['admin']}/query", {"query": query})
    begun, ended = [], 0
    for row in answer["rows"]:
        begun += [row.get("name")] * (row["entry_type"] == "Command: Run")
        ended += row["entry_type"] == "Notification: Run" and "ailure" not in str(row.get("entry_json"))
    done = [int(one[4:]) for one in begun[:ended] if one.startswith("act-")]
    return outside.states(done, [int(one.split("-")[1]) for one in begun], options.effects)


def serve(options):
    ports = []
    for _ in range(3):
        with socket.create_server(("127.0.0.1", 0)) as free:
            ports.append(free.getsockname()[1])
    program = Path(sys.executable).parents[1] / "node_modules" / ".bin" / "restate-server"
    settings = {
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ports[0]}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{ports[1]}",
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{ports[2]}",
        "RESTATE_BASE_DIR": options.state,
        "RESTATE_LOG_SERVER__ROCKSDB_DISABLE_WAL_FSYNC": "false",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
    }
    with Path(options.state, "restate.log").open("wb") as log:
        server = subprocess.Popen(
            [str(program), "--no-logo"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | settings
        )
    where = {"ingress": f"http://127.0.0.1:{ports[0]}", "admin": f"http://127.0.0.1:{ports[1]}"}
    while server.poll() is None:
        try:
            healths = (f"{where['admin']}/health", f"{where['ingress']}/restate/health")
            if all(ask("GET", url)[0] == 200 for url in healths):
                break
        except OSError:
            time.sleep(0.1)
    Path(options.state, "restate.json").write_text(json.dumps(where))
    outside.until_closed(server)


if __name__ == "__main__":
    outside.main(PEER, run=lambda options: asyncio.run(run_async(options)), inspect=inspect, serve=serve)
