"""`perdure worker`: a disposable process that runs sessions which are ready."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Any

import click

from perdure.cli.shell import RenamedOption, Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe, span
from perdure.clock import format_time
from perdure.errors import PerdureError
from perdure.runtime.runtime import Runtime
from perdure.runtime.workers.session_tasks import WorkerNotice
from perdure.runtime.workers.worker import Worker


@command
@click.argument("id", required=False)
@click.option("--idle", type=click.FloatRange(0), metavar="SECONDS", help="Exit after SECONDS with nothing to do.")
@click.option(
    "--concurrency", "--at-once", "concurrency", type=click.IntRange(1, 1000), metavar="N", default=4,
    show_default=True, cls=RenamedOption, help="Run up to N sessions at a time.",
)  # fmt: skip
@by_option
def worker(shell: Shell, id: str | None, idle: float | None, concurrency: int) -> int:
    """Run sessions that are ready, until it is stopped.

    A worker runs the sessions whose program it has loaded, and those whose worker died: higher priority first, then
    the oldest. A session whose worker died runs alone at first; after five such deaths without progress it waits for a
    person. With ID, the worker runs only that session and its children, and stays while the session waits for a timer.
    Without ID, --idle lets it exit even if a timer is due more than a minute from now; it then prints when to start a
    worker again. It is safe to kill a worker at any time.
    """
    shell.load()

    async def work(runtime: Runtime) -> int:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        only = None if id is None else (await runtime.get(id)).uid
        made = Worker(
            runtime,
            only=only,
            concurrency=concurrency,
            notify=lambda notice: show_notice(shell, notice, runtime.store.clock.now()),
        )
        name = runtime.worker.name
        _show(shell, f"worker {name}", {"type": "worker.started", "worker": name})
        with suppress(asyncio.CancelledError):  # SIGTERM: the sessions have been given back
            await made.run(idle)
        return 1 if made.failed else 0

    return run_with_runtime(shell, work)


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
