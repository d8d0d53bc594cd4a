"""`perdure audit report`: a page with plots and tables about a range of time."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, command
from perdure.config import is_service


@command
@click.option("--since", metavar="WHEN", default="7d", show_default=True, help='From this time: "7d" ago, or a date.')
@click.option("--until", metavar="WHEN", help="Before this time.")
@click.option("--to", metavar="FILE", help="The HTML file to write; without it, the page is printed.")
def report(shell: Shell, since: str, until: str | None, to: str | None) -> None:
    """Write a report as one HTML page: effects by reach, waiting for people, doubts, costs, controls, incidents.

    Each plot has a table with its figures. The page has no scripts, needs nothing from elsewhere, and can be printed.
    With --json, the figures are printed instead.
    """
    from perdure.cli.audit.file import write_file
    from perdure.cli.store_access import read_store
    from perdure.cli.text.plain import safe
    from perdure.control.audit.report import gather
    from perdure.control.audit.report_page import page
    from perdure.runtime.audit import read_range

    if is_service(shell.store):
        from perdure.cli.remote.access import read_report

        made = read_report(shell, since, until)
    else:
        with read_store(shell) as tx:
            made = gather(tx, read_range(since, until, tx.now))
    if shell.json:
        shell.echo_json(made)
    if to is not None:
        write_file(to, page(made).encode(), mode=0o644)
        if not shell.json:
            shell.echo(f"The report is in {safe(to)}.")
    elif not shell.json:
        shell.echo_bytes([page(made).encode()])
