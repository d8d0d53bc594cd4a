"""`perdure worker`: a disposable process that runs sessions which are ready."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from perdure.cli.remote.worker import refuse_on_service, run_remote_worker
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe
from perdure.cli.workers.options import worker_options
from perdure.cli.workers.supervised_tree import run_tree
from perdure.clock import SECOND, format_time, span
from perdure.config import is_service
from perdure.control.supervisor.notification import ManagerNotifier, take_notifier
from perdure.control.supervisor.worker_process import RecycleLimits, WorkerProcess
from perdure.errors import ConfigError, PerdureError
from perdure.runtime.runtime import Runtime
from perdure.runtime.workers.session_tasks import WorkerNotice
from perdure.runtime.workers.worker import Worker


@command
@click.argument("id", required=False)
@click.option("--idle", type=click.FloatRange(0), metavar="SECONDS", help="Exit after SECONDS with nothing to do.")
@worker_options
@click.option("--parent", hidden=True, help="The supervisor that started it.")
@by_option
def worker(shell: Shell, id: str | None, idle: float | None, parent: str | None, **options: Any) -> int:
    """Run sessions that are ready, until it is stopped.

    A worker runs the sessions whose program it has loaded, and those whose worker died: higher priority first, then
    the oldest. A session whose worker died runs alone at first; after five such deaths without progress it waits for a
    person. With ID, the worker runs only that session and its children, and stays while the session waits for a timer.
    Without ID, --idle lets it exit although timers are due later; it then prints when to start a worker again. For a
    timer that is due within a minute it stays, unless SECONDS is 0. It is safe to kill a worker at any time.

    SIGTERM lets it drain: it takes nothing new and exits with 0 when its sessions have finished or wait, or with 5 if
    it gave sessions back after the time of --drain. A second SIGTERM gives them back at once.

    With --isolate, a supervisor runs each session in a process of its own, which ends with it: a session that exits,
    crashes, blocks or uses up memory takes no other along. It contains accidents; it is no security boundary.
    """
    if is_service(shell.store):
        refuse_on_service(shell, id, options)
    if options["isolate"]:
        if id is not None or idle is not None:
            raise ConfigError("A worker with --isolate takes neither an ID nor --idle.", hint="Leave them out.")
        return run_tree(shell, options, workers=1)
    notifier = take_notifier()
    shell.load()
    if is_service(shell.store):
        return run_remote_worker(shell, lambda runtime: run_worker(shell, runtime, notifier, None, idle, options))

    async def work(runtime: Runtime) -> int:
        runtime.worker_about["parent"] = parent
        if options["code_version"] is not None:
            runtime.worker_about["code_version"] = options["code_version"]
        return await run_worker(shell, runtime, notifier, id, idle, options)

    return run_with_runtime(shell, work)


async def run_worker(
    shell: Shell, runtime: Runtime, notifier: ManagerNotifier, id: str | None, idle: float | None,
    options: Mapping[str, Any],
) -> int:  # fmt: skip
    """Run a worker in this process; returns the exit code."""
    process = WorkerProcess(
        runtime,
        notifier,
        drain=options["drain"] / SECOND,
        hang=options["hang"] / SECOND,
        recycle=RecycleLimits(options["recycle_after"], options["recycle_sessions"], options["recycle_memory"]),
    )

    def notify(notice: WorkerNotice) -> None:
        show_notice(shell, notice, runtime.store.clock.now())
        if notice.type in ("worker.left", "worker.failed"):
            process.session_left()

    only = None if id is None else (await runtime.get(id)).uid
    made = Worker(
        runtime,
        only=only,
        concurrency=options["concurrency"],
        queues=options["queues"],
        services=runtime.worker_about["parent"] is None,  # a supervisor runs them in processes of their own
        notify=notify,
    )
    name = runtime.worker.name
    _show(shell, f"worker {name}", {"type": "worker.started", "worker": name})
    return await process.run(made, idle)


def show_notice(shell: Shell, notice: WorkerNotice, now: int) -> None:
    """Print a notice: one line of text, or one JSON object."""
    error, session = _error(notice.error), safe(notice.session or "")
    if notice.type == "worker.waiting":
        _show(shell, f"{error['message']} [{error['code']}] Retrying.", {"type": notice.type, "error": error})
    elif notice.type == "worker.idle":
        due = notice.next_due or 0
        line = f"The next timer is due at {format_time(due)} (in {span(max(0, due - now))}). Start a worker then."
        _show(shell, line, {"type": notice.type, "next_due": due})
    elif notice.type == "worker.left":
        about = {"type": notice.type, "session": notice.session, "status": notice.status}
        _show(shell, f"session {session} is {notice.status}", about)
    else:
        line = f"session {session}: {safe(error['message'])} [{error['code']}] {safe(error['hint'])}"
        _show(shell, line.rstrip(), {"type": notice.type, "session": notice.session, "error": error})


def _show(shell: Shell, line: str, about: dict[str, Any]) -> None:
    if shell.json:
        shell.echo_json(about)
    else:
        shell.echo(line)


def _error(error: Exception | None) -> dict[str, str]:
    if isinstance(error, PerdureError):
        return {"code": error.code, "message": error.message, "hint": error.hint}
    return {"code": "internal", "message": f"{type(error).__name__}: {error}", "hint": ""}
