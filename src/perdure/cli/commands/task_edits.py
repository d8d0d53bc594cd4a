"""`perdure tasks add`, `done` and `drop`: a person changes the plan of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand
from perdure.domain.literals import TaskStateWord

if TYPE_CHECKING:
    from perdure.domain.task import Task


@command
@click.argument("id")
@click.argument("title")
@click.option("--below", metavar="TASK", help="The task that it is a part of.")
@click.option("--priority", type=int, default=0, show_default=True, help="Tasks with a higher number come first.")
@by_option
def add(shell: Shell, id: str, title: str, below: str | None, priority: int) -> None:
    """Add a task to the plan of a session.

    An agent is told when it next resumes, or when it next reads its plan.
    """
    from perdure.cli.store_access import run_with_runtime

    made = run_with_runtime(
        shell, lambda runtime: runtime.add_task(id, title, parent=below, priority=priority, by=shell.by)
    )
    _report(shell, made)


@command
@click.argument("id")
@click.argument("task")
@click.option("--because", metavar="TEXT", help="A note for the task.")
@by_option
def done(shell: Shell, id: str, task: str, because: str | None) -> None:
    """Mark a task of an agent as done."""
    _change(shell, id, task, "done", because)


@command
@click.argument("id")
@click.argument("task")
@click.option("--because", metavar="TEXT", help="A note for the task.")
@by_option
def drop(shell: Shell, id: str, task: str, because: str | None) -> None:
    """Drop a task of an agent: it need not be done."""
    _change(shell, id, task, "dropped", because)


def extend(listing: click.Command) -> ListingCommand:
    """The plan of a session with its subcommands."""
    return ListingCommand(listing, {"add": add, "done": done, "drop": drop})


def _change(shell: Shell, id: str, task: str, state: TaskStateWord, because: str | None) -> None:
    from perdure.cli.store_access import run_with_runtime

    made = run_with_runtime(shell, lambda runtime: runtime.change_task(id, task, state, because=because, by=shell.by))
    _report(shell, made)


def _report(shell: Shell, made: Task) -> None:
    from perdure.cli.text.plain import safe, short

    if shell.json:
        shell.echo_json(made)
    else:
        shell.echo(f"Task {safe(made.id)} is {made.state}: {short(made.title)}")
