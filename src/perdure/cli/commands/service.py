"""`perdure service NAME`: one service as a process, which `perdure serve` starts. It is not listed in the help."""

from __future__ import annotations

import asyncio
import signal

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.control.supervisor.notification import WORKER, ManagerNotifier, take_notifier
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.registry import run_service


@command
@click.argument("name")
@click.option("--parent", hidden=True, help="The supervisor that started it.")
@by_option
def service(shell: Shell, name: str, parent: str | None) -> int:
    """Run one service of a store until SIGTERM."""
    notifier = take_notifier()

    async def work(runtime: Runtime) -> int:
        running = asyncio.ensure_future(run_service(runtime, name, parent=parent))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        await asyncio.sleep(0)  # it has registered, or it has failed
        if not running.done():
            notifier.send(**{WORKER: runtime.worker.name}, READY=1)
        signs = asyncio.ensure_future(send_signs(notifier))
        await asyncio.wait([running])
        signs.cancel()
        if not running.cancelled():
            running.result()
        return 0

    return run_with_runtime(shell, work)


async def send_signs(notifier: ManagerNotifier) -> None:
    """Send signs of life while the event loop turns."""
    while notifier.watchdog is not None:
        notifier.send(WATCHDOG=1)
        await asyncio.sleep(notifier.watchdog / 3)
