"""`perdure doctor`: the report on a store, for people or as JSON."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.doctor import conclusion, fact_table
from perdure.config import is_service
from perdure.control.doctor.examination import diagnose


@command
@click.option("--deep", is_flag=True, help="Read every page, and verify the chain of every session.")
def doctor(shell: Shell, deep: bool) -> int:
    """Check the health of the store, which guarantees hold, and what to do.

    It changes nothing: it neither creates nor migrates a store. Exits with 1 if something is wrong.
    """
    report = (
        run_with_runtime(shell, lambda runtime: runtime.doctor(deep=deep))
        if is_service(shell.store)
        else diagnose(shell.store, deep=deep, connections=shell.connections, artifacts=shell.settings.get("artifacts"))
    )
    if shell.json:
        shell.echo_json(report)
    else:
        shell.echo_rich(fact_table(report), *conclusion(report))
    return 0 if report.healthy else 1
