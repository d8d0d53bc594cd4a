"""`perdure service NAME`: one service as a process, which `perdure serve` starts. It is not listed in the help."""

from __future__ import annotations

import asyncio
import logging
import signal

import click
import msgspec

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import LoopFactory, run_with_runtime
from perdure.control.supervisor.notification import WORKER, ManagerNotifier, take_notifier
from perdure.errors import PerdureError
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.registry import run_service

logger = logging.getLogger(__name__)
LONGEST_PAUSE = 5.0  # seconds between two looks for what could not be sent
AGAIN = 1.0  # seconds until it is sent again


@command
@click.argument("name")
@click.option("--parent", hidden=True, help="The supervisor that started it.")
@click.option("--plan", hidden=True, help="The sockets and settings of `http`, as JSON.")
@by_option
def service(shell: Shell, name: str, parent: str | None, plan: str | None) -> int:
    """Run one service of a store until SIGTERM."""
    notifier = take_notifier()
    if plan is not None:
        load_programs(shell)

    async def work(runtime: Runtime) -> int:
        if plan is not None:
            running = asyncio.ensure_future(run_http(runtime, plan, parent))
        else:
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

    return run_with_runtime(shell, work, loop=None if plan is None else fast_loop())


def fast_loop() -> LoopFactory | None:
    """The event loop of uvicorn, which is faster where uvloop is installed."""
    from uvicorn.loops.auto import auto_loop_factory

    return auto_loop_factory()


async def run_http(runtime: Runtime, plan: str, parent: str | None) -> None:
    """Answer requests until SIGTERM."""
    from perdure.console.application import console_routes
    from perdure.server.http_process import HttpPlan, serve

    read = msgspec.json.decode(plan, type=HttpPlan)
    runtime.worker_about |= {"role": "service", "parent": parent}
    seen = asyncio.ensure_future(runtime.worker.keep_seen())
    try:
        await serve(runtime, read, console_routes(runtime, read.settings))
    finally:
        seen.cancel()


def load_programs(shell: Shell) -> None:
    """Import the programs that can be started. Without them the rest of the service works: workers report the error."""
    try:
        shell.load()
    except PerdureError as error:
        logger.warning("No programs can be started over HTTP: %s", error.message)


async def send_signs(notifier: ManagerNotifier) -> None:
    """Send signs of life while the event loop turns, and at once again what could not be sent."""
    pause = LONGEST_PAUSE if notifier.watchdog is None else notifier.watchdog / 3
    while True:
        is_sent = notifier.send_sign()
        await asyncio.sleep(pause if is_sent else min(pause, AGAIN))
