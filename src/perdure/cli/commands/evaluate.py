"""`perdure evaluate`: the evaluation, as a session of its own in a folder of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from perdure.cli.shell import Shell, command, is_terminal
from perdure.cli.text.plain import count, safe
from perdure.errors import ConfigError

FOLDER = "perdure-evaluation"


@command
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option(
    "--full/--short", help="The full form takes hours for crash, and about ten minutes for each of the others."
)
@click.option("--to", metavar="DIR", type=click.Path(file_okay=False), default=FOLDER, help="Folder of the results.")
@click.option("--resume", is_flag=True, help="Continue the evaluation in the folder.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=1, help="Seed of the trials (default: 1).")
@click.option("--rounds", metavar="N", type=click.IntRange(0, 1000), default=0, help="Repeat each trial N times.")
@click.option("--trial", metavar="ID", multiple=True, help="Run only this trial, to repeat it; may be given again.")
@click.option("--call", "calls", metavar="CALL", multiple=True, help='With --app: arguments, as "charge order=7".')
@click.option("--env", "environment", metavar="NAME=VALUE", multiple=True, help="With --app: {sink} is the sink's URL.")
@click.option("--observe", metavar="MODULE:FUNCTION", default="", help="With --app: lists what is outside, for a sink.")
@click.option("--allow", metavar="HOST", multiple=True, help="With --app: a host beyond this machine to connect to.")
@click.option("--without-keys", is_flag=True, help="With --app: the sink ignores idempotency keys.")
def evaluate(
    shell: Shell, workloads: tuple[str, ...], full: bool, to: str, resume: bool, seed: int, rounds: int,
    trial: tuple[str, ...], **own: Any,
) -> int:  # fmt: skip
    """Measure what Perdure and other designs keep under kills and contention, and write a report.

    It can be killed at any time; `--resume` continues it. Exits with 1 if a claim is refuted or the run is void.
    With `crash --app MODULE`, your own tools and programs are killed instead; exits with 1 if one is wrong.
    """
    from perdure.evaluation import evaluate as evaluation
    from perdure.evaluation.workload import Form

    folder = Path(to)
    if shell.app:
        return _evaluate_tools(shell, workloads, folder, full=full, **own)
    if given := [name for name, value in own.items() if value]:
        raise ConfigError(
            f"--{OPTIONS.get(given[0], given[0])} needs --app.", hint="Name your module with --app MODULE."
        )
    form = Form.FULL if full else Form.SHORT
    plan = evaluation.prepare(folder, list(workloads), form, seed, resume=resume, only=trial, rounds=rounds)
    made = evaluation.evaluate(folder, plan, None if shell.json else ProgressLine(shell))
    if shell.json:
        shell.echo_json(made)
        return 0 if made.succeeded else 1
    for report in made.reports:
        shell.echo("", safe(report.title))
        shell.echo(
            *(f"  {'holds' if one.holds else 'REFUTED'}: {safe(one.text)}: {one.figure}" for one in report.hypotheses)
        )
        shell.echo(*(f"  control {safe(one.name)}: {one.caught} of {one.of} caught" for one in report.controls))
    shell.echo("", f"{count(made.trials, 'trial')}: {made.counted} counted, {made.void} void, {made.not_run} not run.")
    if not made.controls_caught:
        missed = "not every control was run" if plan.only else "a control was not caught"
        shell.echo(f"Void: {missed}, so no figure of this run counts.")
    shell.echo(f"The report is {safe(str(folder / 'report.html'))}.")
    return 0 if made.succeeded else 1


OPTIONS = {"calls": "call", "environment": "env", "without_keys": "without-keys"}


def _evaluate_tools(
    shell: Shell, workloads: tuple[str, ...], folder: Path, *, full: bool, calls: tuple[str, ...],
    environment: tuple[str, ...], observe: str, allow: tuple[str, ...], without_keys: bool,
) -> int:  # fmt: skip
    """The tools and programs of the user under the crash workload."""
    import shlex

    from perdure.evaluation.own_tools.evaluate_tools import ToolEvaluation, evaluate_tools

    if workloads != ("crash",):
        raise ConfigError("--app is for the workload crash.", hint="Type `perdure evaluate crash --app MODULE`.")
    shell.load()
    given = ToolEvaluation(
        apps=list(shell.app), calls=list(calls), environment=list(environment), observe=observe, allowed=list(allow),
        honours_keys=not without_keys, full=full, command=shlex.join(["perdure", *sys.argv[1:]]),
    )  # fmt: skip
    made = evaluate_tools(folder, given, None if shell.json else ProgressLine(shell))
    if shell.json:
        shell.echo_json(made)
        return 0 if made.succeeded else 1
    for one in made.verdicts:
        rule = f" ({one.rule})" if one.rule else ""
        shell.echo(f"{one.verdict}: {safe(one.name)}{rule}, {count(one.kills, 'kill')}{_because(one.reason)}")
        for found in one.findings:
            shell.echo(f"  {found.mistake}: {safe(found.seen)}", f"  change: {found.change}")
        shell.echo(*(f"  note: {safe(note)}" for note in one.notes))
    shell.echo("", f"The report is {safe(str(folder / 'report.html'))}.")
    return 0 if made.succeeded else 1


def _because(reason: str) -> str:
    return f": {safe(reason)}" if reason else ""


class ProgressLine:
    """The progress on standard error: one line that changes on a terminal, otherwise a line per tenth."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._shown: tuple[str, int] = ("", -1)

    def __call__(self, workload: str, done: int, total: int) -> None:
        if is_terminal(sys.stderr):
            click.echo(f"\r{workload}: {done} of {total} trials", nl=done == total, err=True)
            return
        tenth = (workload, 10 * done // total)
        if tenth != self._shown:
            self._shown = tenth
            self._shell.note(f"{workload}: {done} of {total} trials")
