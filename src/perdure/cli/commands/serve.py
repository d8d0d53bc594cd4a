"""`perdure serve`: a supervised tree of workers and services for a store."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.workers.http import http_options, read_options
from perdure.cli.workers.options import worker_options
from perdure.cli.workers.supervised_tree import run_tree


@command
@click.option(
    "--workers",
    type=click.IntRange(0, 256),
    metavar="N",
    help="Run N worker processes (default: one for each CPU); with 0, only the services.",
)
@worker_options
@click.option(
    "--lease", metavar="DURATION", help="How long leases last without renewal (default: the setting, or 15s)."
)
@click.option(
    "--restarts", type=click.IntRange(0), metavar="N",
    help="How often workers may fail within a minute (default: 10, and 10 more for each worker).",
)  # fmt: skip
@http_options
@by_option
def serve(shell: Shell, workers: int | None, lease: str | None, restarts: int | None, **options: Any) -> int:
    """Run workers and services for a store, answer requests over HTTP, and restart what fails.

    One supervisor process starts the services (leases, timers, schedules, approvals, housekeeping; notifications if
    there are channels), a process that answers HTTP, and N workers. A process that ends is restarted; one that fails
    too often ends everything, and `perdure serve` exits with 1. If the supervisor is killed, its processes end as
    well; starting it again continues every session.

    It listens on a Unix socket, where a client is the user that it runs as, and on a port of this machine, where a
    client needs a token. It listens on another address only if there is a token, and with TLS or --behind-proxy.

    With --isolate there is a process for each session that runs, up to the product of --workers and --concurrency.

    SIGTERM and Ctrl-C stop the tree: workers drain first, then services end. After a second signal
    workers give their sessions back at once.
    """
    count = len(os.sched_getaffinity(0)) if workers is None else workers
    return run_tree(shell, options, workers=count, lease=lease, restarts=restarts, http=read_options(options))
