"""`perdure serve`: a supervised tree of workers and services for a store."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.background_worker import COMMAND, check_background, child_environment
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.worker_options import worker_options, worker_words
from perdure.control.supervisor.notification import take_notifier
from perdure.control.supervisor.specification import WRONG_USE
from perdure.control.supervisor.store_supervisor import StoreSupervisor
from perdure.control.supervisor.tree import SERVICES, serve_tree
from perdure.errors import ConfigError, PerdureError
from perdure.runtime.runtime import Runtime


@command
@click.option(
    "--workers", type=click.IntRange(1, 256), metavar="N", help="Run N worker processes (default: one for each CPU)."
)
@worker_options
@by_option
def serve(shell: Shell, workers: int | None, **options: Any) -> int:
    """Run workers and services for a store, and restart those that fail.

    One supervisor process starts the services (leases, timers, schedules, approvals, housekeeping) and N workers. A
    process that ends is restarted; one that fails too often ends everything, and `perdure serve` exits with 1. If the
    supervisor is killed, its processes end as well; starting it again continues every session.

    SIGTERM and Ctrl-C stop the tree: workers drain first, then services end. A second signal gives back at once.
    """
    notifier = take_notifier()
    check_background(shell)
    workers = workers or len(os.sched_getaffinity(0))

    async def work(runtime: Runtime) -> int:
        runtime.worker_about |= {"role": "supervisor", "concurrency": workers * options["concurrency"]}
        words = [*worker_words(options), "--parent", runtime.worker.id]
        for one in shell.app:
            words += ["--app", one]
        tree = serve_tree(COMMAND, words, workers=workers, drain=options["drain"], services=SERVICES)
        serving = StoreSupervisor(runtime, tree, environment=child_environment(shell), notifier=notifier)
        name = runtime.worker.name
        if shell.json:
            shell.echo_json({"type": "serve.started", "supervisor": name, "workers": workers})
        else:
            shell.echo(f"supervisor {name}, {workers} workers. `{shell.suggest('top')}` shows them.")
        ended = await serving.run()
        if ended.failure is not None:
            kind = ConfigError if ended.exit_code == WRONG_USE else PerdureError
            raise kind(f"Everything was stopped: {ended.failure}.", hint="The messages of that process are above.")
        return 0

    return run_with_runtime(shell, work, create=True)
