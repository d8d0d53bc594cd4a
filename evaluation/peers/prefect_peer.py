"""Prefect: a flow of tasks whose results are persisted. In `.peers/prefect`; `outside.py` has the command line.

Its page on results: with `persist_result=True` the result of a task is stored, and a task whose key has a stored result
is not run again. A task that was interrupted has no result and runs again when the flow is started again. The server
(`prefect server start`, SQLite) keeps states and is killed by no trial. Results are files, which Prefect does not sync.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import outside

PEER = {
    "system": "prefect",
    "packages": ["prefect"],
    "page": "https://docs.prefect.io/v3/advanced/results",
    "substrates": ["sqlite"],
    "settings": {"results": "local files, not synced: no setting does it", "server": "SQLite, as Prefect sets it"},
    "configurations": {
        "documented": "a task for each effect, persist_result=True with a result_storage_key; the flow is run again",
        "key": "the same, with an idempotency key made of the trial and the effect",
        "lookup": "the same, with a lookup at the service before it sends",
        "once": "the same, with a task before it that stores a mark of the process, and a check by hand",
    },
    "cannot": [
        "say from stored results that a task was started: the server keeps states by run and not by key",
        "refuse a second attempt of a task after a crash, without a mark written by hand",
        "run without a server: a process without one starts one",
    ],
}


def results(options):
    return Path(options.state, f"results-{options.trial}")


def work(options):
    """The flow. Prefect is imported when its settings are in the environment."""
    os.environ |= {
        "PREFECT_API_URL": Path(options.state, "prefect.url").read_text(),
        "PREFECT_HOME": options.state,
        "PREFECT_LOCAL_STORAGE_PATH": str(results(options)),
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "DO_NOT_TRACK": "1",
    }
    from prefect import flow, task

    @task(persist_result=True, result_storage_key="mark-{parameters[n]}")
    def mark(n: int) -> str:
        return outside.PROCESS

    @task(persist_result=True, result_storage_key="act-{parameters[n]}")
    def act(n: int, marked: str) -> str:
        if options.configuration == "once":
            return outside.act_once(options, n, marked)
        return outside.act(options, n)

    @flow
    def effects(count: int) -> None:
        for n in range(1, count + 1):
            act(n, mark(n) if options.configuration == "once" else "")

    return effects


def run(options):
    work(options)(options.effects)


def inspect(options):
    names = [path.name for path in results(options).glob("*")]
    done, marks = ([int(name.split("-")[1]) for name in names if name.startswith(word)] for word in ("act-", "mark-"))
    return outside.states(done, marks, options.effects)


def serve(options):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home = {"PREFECT_HOME": options.state, "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    home["PREFECT_SERVER_UI_ENABLED"] = "false"
    command = [str(Path(sys.executable).with_name("prefect")), "server", "start", "--no-ui", "--port", str(port)]
    with Path(options.state, "prefect.log").open("wb") as log:
        server = subprocess.Popen(
            command, env=os.environ | home, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=options.state
        )
    url = f"http://127.0.0.1:{port}/api"
    while server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                break
        except OSError:
            time.sleep(0.1)
    Path(options.state, "prefect.url").write_text(url)
    outside.until_closed(server)


if __name__ == "__main__":
    outside.main(PEER, run=run, inspect=inspect, serve=serve)
