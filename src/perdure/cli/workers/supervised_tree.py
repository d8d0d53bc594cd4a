"""A supervised tree of workers and services, as `perdure serve` and `perdure worker --isolate` run it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.cli.app import check_apps, split_names
from perdure.cli.background_worker import COMMAND, check_background, child_environment
from perdure.cli.shell import Shell
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import count
from perdure.cli.workers.http import HttpListener, HttpOptions, listening
from perdure.cli.workers.options import worker_words
from perdure.control.supervisor.notification import take_notifier
from perdure.control.supervisor.specification import GIVEN_BACK, WRONG_USE
from perdure.control.supervisor.state import TreeState
from perdure.control.supervisor.store_supervisor import StoreSupervisor
from perdure.control.supervisor.tree import serve_tree
from perdure.errors import ConfigError, PerdureError
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.notifications.channels import read_channels
from perdure.runtime.runtime import Runtime


def run_tree(
    shell: Shell,
    options: Mapping[str, Any],
    *,
    workers: int,
    lease: str | None = None,
    restarts: int | None = None,
    http: HttpOptions | None = None,
) -> int:
    """Run the tree until it is stopped, with a process `http` if it has options; returns the exit code."""
    notifier = take_notifier()
    check_background(shell, "Run `perdure worker`")
    check_apps(shell.app or split_names(shell.settings.get("app", "")))
    environment = child_environment(shell)
    if lease is not None:
        microseconds(lease)
        environment["PERDURE_LEASE"] = lease
    if options["isolate"]:  # one session in each process, which then makes place for a fresh one
        workers *= options["concurrency"]
        options = {**options, "concurrency": 1, "recycle_sessions": 1, "isolate": False}
    without = () if read_channels(shell.settings.get("notifications")) else ("notifications",)
    words = worker_words(options)
    for one in shell.app:
        words += ["--app", one]

    async def work(runtime: Runtime) -> int:
        runtime.worker_about |= {"role": "supervisor", "concurrency": workers * options["concurrency"]}
        async with listening(shell, runtime, http) as listener:
            tree = serve_tree(
                COMMAND, words, parent=runtime.worker.id, workers=workers, drain=options["drain"], restarts=restarts,
                http=listener.spec, without=without,
            )  # fmt: skip
            tell_start(shell, runtime.worker.name, workers, listener)
            return _exit_code(await StoreSupervisor(runtime, tree, environment=environment, notifier=notifier).run())

    return run_with_runtime(shell, work, create=True)


def tell_start(shell: Shell, name: str, workers: int, listener: HttpListener) -> None:
    """Say who supervises, and where requests are answered."""
    if shell.json:
        shell.echo_json(
            {"type": "serve.started", "supervisor": name, "workers": workers, "addresses": listener.addresses}
        )
        return
    shell.echo(f"supervisor {name}, {count(workers, 'worker')}. `{shell.suggest('top')}` shows them.")
    shell.echo(*(f"listening on {one}" for one in listener.addresses))
    for one in listener.notes:
        shell.note(f"note: {one}")


def _exit_code(ended: TreeState) -> int:
    """0, or 5 if a worker gave sessions back when it was stopped. Raises if the tree failed."""
    if ended.failure is not None:
        kind = ConfigError if ended.exit_code == WRONG_USE else PerdureError
        raise kind(f"Everything was stopped: {ended.failure}.", hint="The messages of that process are above.")
    exits = {one.last_exit for one in ended.children.values()}
    return GIVEN_BACK if f"exit code {GIVEN_BACK}" in exits else 0
