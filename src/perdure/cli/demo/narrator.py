"""The narration of the demo: what each command did, as it happens, and the verdict at the end."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from textwrap import wrap
from typing import Any

from rich.markup import escape

from perdure.cli.agent_prompt import EXAMPLE
from perdure.cli.demo.environment import CommandRun
from perdure.cli.demo.scenario import DemoState, DemoStep, EffectCount, Scenario
from perdure.cli.shell import Shell
from perdure.cli.text.grid import grid
from perdure.cli.text.plain import safe
from perdure.store.inspection.read_access import locate_store

WIDTH = 80


class Narrator:
    """Prints the scenario as it happens, and checks the counts at the end. `right` is the verdict."""

    def __init__(self, shell: Shell, scenario: Scenario, sandbox: str, kept: Path | None) -> None:
        self.shell = shell
        self.scenario = scenario
        self.sandbox = sandbox
        self.kept = kept
        self.facts: dict[str, Any] = {"session": scenario.session, "sandbox": sandbox}
        self.right = True

    def run(self) -> int:
        self.echo(OPENING, SANDBOXED.format(self.sandbox) if self.sandbox != "none" else NO_SANDBOX)
        state = self.kill()
        self.plan(state)
        self.recover(state.cursor)
        self.push()
        self.fork(state.fork_at)
        self.count(self.move())
        if self.shell.json:
            self.shell.echo_json(self.facts | {"right": self.right})
        self.echo("", RIGHT if self.right else WRONG, "", *self.next_steps())
        return 0 if self.right else 1

    def kill(self) -> DemoState:
        self.heading("1. An agent fixes a failing test, and is killed")
        killed, state = self.scenario.run_and_kill()
        self.show_command(killed)
        self.show_steps(state.steps)
        self.echo(f"   [bold]kill -9 {killed.pid}[/]", KILLED)
        self.facts |= {"killed": killed, "ledger": state.states}
        window = state.states.get("post_comment") == ["dispatched"]
        self.right &= killed.kept_at_kill == 1 and window
        return state

    def plan(self, state: DemoState) -> None:
        self.heading("2. What is known, and what recovery will do")
        self.echo(f"   at the service  {self.facts['killed'].kept_at_kill} comment")
        self.echo(
            f"   in the ledger   post_comment: {', '.join(state.states.get('post_comment', ()))}, outcome unknown"
        )
        ran, plan = self.scenario.plan()
        self.show_command(ran)
        self.lines(f"{one['tool']}: {one['action']}. {one['why']}" for one in plan)
        self.facts["plan"] = plan
        self.right &= [one["action"] for one in plan] == ["probe"]

    def recover(self, since: int) -> None:
        self.heading("3. Another process resumes it")
        ran, state = self.scenario.resume(since)
        self.show_command(ran)
        self.lines(state.log)
        self.lines(["git_push: waits for the approval of a person. No process has to run meanwhile."])
        self.facts |= {"recovery": state.log, "waited": state.status, "approvals": state.approvals}
        self.right &= ran.code == 3 and len(state.approvals) == 1

    def push(self) -> None:
        self.heading("4. A person approves (played by the demo)")
        (approval,) = self.facts["approvals"]
        for one in self.scenario.approve(approval):
            self.show_command(one)
            self.show_answer(one)

    def fork(self, at: int) -> None:
        self.heading("5. Another fix, in a branch with its own folder")
        runs, state, last_lines = self.scenario.run_branch(at)
        for one in runs:
            self.show_command(one)
        self.show_steps(state.steps)
        self.show_answer(runs[-1])
        self.lines(f"{f'in {name}':14}  {text.strip()}" for name, text in last_lines.items())
        self.facts["branch"] = {"session": self.scenario.branch, "steps": state.steps, "says": last_lines}
        passed = any(one.about.endswith("exit 0") for one in state.steps)
        self.right &= passed and len(set(last_lines.values())) == 2 and "post_comment" not in state.states

    def move(self) -> dict[str, int]:
        self.heading("6. It moves to another store, and continues there")
        runs, state = self.scenario.move()
        for one in runs:
            self.show_command(one)
        self.show_answer(runs[-1])
        self.facts["moved"] = state.status
        return state.asked

    def count(self, asked: dict[str, int]) -> None:
        self.heading("7. Count: at the service, in the repository, at the remote")
        counts = self.scenario.count(asked)
        self.echo(*count_table(counts))
        self.facts["counts"] = counts
        self.right &= all((one.at_service, one.duplicated, one.lost) == (one.wanted, 0, 0) for one in counts)
        self.right &= [one.asked for one in counts] == [0, 0, 1]

    def heading(self, text: str) -> None:
        self.echo("", f"[bold]{text}[/]")

    def show_command(self, run: CommandRun) -> None:
        """The command that was run."""
        line = shlex.join(["perdure", *(word for word in run.typed if word != "--json")])
        self.lines([f"$ {line}"], style="cyan")

    def show_steps(self, steps: list[DemoStep]) -> None:
        for one in steps:
            failed = f" ({one.status})" if one.status not in ("done", None) else ""
            self.lines([f"{one.tool:13} {one.about}{failed}"], indent=17)

    def show_answer(self, run: CommandRun) -> None:
        """The last line of the output, which is the answer of the agent."""
        lines = [line for line in run.said if line.strip()]
        if run.typed[0] == "resume":
            self.lines([f'"{lines[-1]}"' if lines else ""])

    def lines(self, given: Any, *, style: str = "", indent: int = 5) -> None:
        """Print text from a session: escaped, and wrapped to the width."""
        for text in given:
            whole = wrap(safe(text), WIDTH, initial_indent="   ", subsequent_indent=" " * indent)
            escaped = (escape(line) for line in whole)
            self.echo(*(f"[{style}]{line}[/]" if style else line for line in escaped))

    def echo(self, *lines: str) -> None:
        if not self.shell.json:
            self.shell.echo_rich(*lines)

    def next_steps(self) -> Iterator[str]:
        """Commands to inspect the result, and how to run an agent on a repository of your own."""
        store = [] if self.shell.store_option is None else ["--store", locate_store(self.shell.store_option).shown]
        where = f"in {self.kept}" if self.kept else "(after `perdure demo --keep DIR`, in DIR)"
        yield escape(f"Inspect the result {where}:")
        if which("perdure") is None and (script := Path(sys.prefix, "bin", "activate")).exists():
            here = script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script
            yield escape(f"   . {shlex.quote(str(here))}")
        for words, what in COMMANDS.items():
            line = shlex.join(["perdure", *words.format(session=self.scenario.session).split(), *store])
            yield escape(f"   {line:36}  {what}")
        yield from ("", "On your own repository, with your own key:", f"   export {KEY}=...")
        yield escape(f'   perdure run "fix the failing test" --model {EXAMPLE}')


def count_table(counts: list[EffectCount]) -> list[str]:

    headings = ("", "effects wanted", "at the service", "duplicated", "lost", "asked")
    rows = [[one.what, *map(str, (one.wanted, one.at_service, one.duplicated, one.lost, one.asked))] for one in counts]
    return [f"   {line}" for line in grid(headings, rows, width=WIDTH)]


OPENING = """\
An agent fixes a failing test, commits, comments on a pull request and pushes.
Its model is scripted: no key, no network. Everything else is real: the
repository, the commands, the service that stores the comment, the kill. Each
line that starts with $ is a separate process."""

SANDBOXED = "The commands of the agent run in a sandbox ({})."
NO_SANDBOX = "[yellow]No sandbox is available here, so the commands of the agent run without one.[/]"

KILLED = """\
   The service has committed the comment, and Perdure has not recorded it. (The
   tool waits at this point, so that the kill always hits this moment. The kill
   is real.)"""

RIGHT = "[green]Nothing was done twice, and nothing was lost.[/]"
WRONG = "[bold red]This is wrong and must never happen. Please report it with the output above.[/]"

COMMANDS = {
    "show {session}": "the session: waits, effects, events",
    "brief {session}-2": "a handover summary",
    "effects": "the ledger",
}
KEY = "ANTHROPIC_API_KEY"
