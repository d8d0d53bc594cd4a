"""`perdure audit`: the questions of auditors, each a subcommand, made from the table of questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

import click

from perdure.cli.audit.head import head, verify
from perdure.cli.audit.report import report
from perdure.cli.audit.tail import tail
from perdure.cli.shell import Shell, command
from perdure.cli.subcommands import ListingCommand
from perdure.config import is_service
from perdure.runtime.runtime import Runtime
from perdure.store.audit.answers import FOREVER
from perdure.store.audit.question import AuditQuestion, AuditRow
from perdure.store.audit.questions import QUESTIONS

TABLE = 50  # rows of a table, unless more are asked for


@command
def audit_questions(shell: Shell) -> None:
    """List the questions of auditors, and answer them.

    `perdure audit QUESTION` answers one from the record of the store: as a table, as JSON lines with --json, or as CSV
    with --csv. Each uses an index, so the time that it takes depends on its range and not on the length of the history.
    """
    from perdure.cli.text.grid import grid

    if shell.json:
        for one in QUESTIONS.values():
            shell.echo_json(one.to_dict())
        return
    rows = [
        [one.name, one.sentence, " ".join(f"--{parameter.name}" for parameter in one.parameters)]
        for one in QUESTIONS.values()
    ]
    shell.echo(*grid(("question", "answers~", "asked about"), rows, width=shell.width), "")
    shell.echo(f"  {shell.suggest('audit', 'failed-runs', '--since', '7d')}")


def question_command(question: AuditQuestion) -> click.Command:
    """The command that answers one question."""

    def run(
        shell: Shell, since: str | None, until: str | None, limit: int | None, as_csv: bool, **parameters: str | None
    ) -> None:
        from perdure.cli.store_access import read_store
        from perdure.runtime.audit import read_range
        from perdure.store.audit import answers

        most = limit if limit is not None else FOREVER if as_csv or shell.json else TABLE
        if is_service(shell.store):
            there = _ask_service(shell, question, parameters, since, until, most + 1)
            print_answer(shell, question, there, most, as_csv=as_csv)
            return
        with read_store(shell) as tx:
            rows = answers.answer(tx, question.name, parameters, read_range(since, until, tx.now), limit=most + 1)
            print_answer(shell, question, rows, most, as_csv=as_csv)

    run.__name__ = question.name
    columns = ", ".join(column.name for column in question.columns)
    run.__doc__ = f"{question.sentence}\n\nThe range compares {question.ranged}. Columns: {columns}."
    decorators = [
        *(click.option(f"--{one.name}", metavar="TEXT", help=_sentence(one.meaning)) for one in question.parameters),
        click.option("--since", metavar="WHEN", help='From this time: "7d" ago, or a date or time in UTC.'),
        click.option("--until", metavar="WHEN", help="Before this time."),
        click.option("--limit", type=click.IntRange(1), help=f"Maximum number of rows.  [default: {TABLE} in a table]"),
        click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a line of headings."),
    ]
    for decorate in reversed(decorators):
        decorate(run)
    return command(run)


def _ask_service(
    shell: Shell, question: AuditQuestion, parameters: Mapping[str, str | None], since: str | None, until: str | None,
    limit: int,
) -> list[AuditRow]:  # fmt: skip
    """The same through a service."""
    from perdure.cli.store_access import run_with_runtime

    async def ask(runtime: Runtime) -> list[AuditRow]:
        found = runtime.audit(question.name, since=since, until=until, limit=limit, **parameters)
        return [row async for row in found]

    return run_with_runtime(shell, ask)


def print_answer(
    shell: Shell, question: AuditQuestion, rows: Iterable[AuditRow], limit: int, *, as_csv: bool = False
) -> None:
    """Print up to `limit` rows; one more shows that there are more."""
    from perdure.cli.text import audit as text
    from perdure.cli.text.grid import grid

    if as_csv:
        shell.echo(text.csv_line([column.name for column in question.columns]))
        for row in islice(rows, limit):
            shell.echo(text.csv_line(text.csv_cells(question, row)))
        return
    if shell.json:
        for row in islice(rows, limit):
            shell.echo_json(row.to_dict())
        return
    found = list(rows)
    if not found:
        shell.echo("Nothing on record answers this question.")
        return
    lines = [text.cells(question, row) for row in found[:limit]]
    shell.echo(*grid(text.headings(question), lines, width=shell.width))
    if len(found) > limit:
        shell.echo("", f"These are the first {limit}. Use --limit to list more.")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


COMMANDS = {name: question_command(one) for name, one in QUESTIONS.items()} | {
    "head": head,
    "verify": verify,
    "tail": tail,
    "report": report,
}
audit = ListingCommand(audit_questions, COMMANDS, listed="question")
audit.name = "audit"
