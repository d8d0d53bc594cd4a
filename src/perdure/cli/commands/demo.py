"""`perdure demo`: an agent is killed at the worst moment, goes on, asks, branches and moves; and nothing is done twice.

start    a service: an HTTP server in a process of its own, with a synced log of its own; a repository with a fault
work     `perdure run`: a scripted agent finds the fault, mends it, commits, posts a comment
kill     SIGKILL from here, once the service's log has the comment and before Perdure could record it
plan     `perdure resume --plan`: what will be done about it
go on    `perdure resume`: the probe finds the comment; a push waits for a person, who is played from here
branch   `perdure fork`: another fix, in a folder of its own
move     `perdure export` and `import`: the session goes on in a second store
count    at the service, in the repository and at the remote, which decides the exit code
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, command
from perdure.errors import ConfigError

if TYPE_CHECKING:
    from perdure.cli.demo.environment import CommandRun
    from perdure.cli.demo.scenario import DemoState, DemoStep, EffectCount, Scenario

WIDTH = 80


@command
@click.option(
    "--keep", metavar="DIR", type=click.Path(file_okay=False), help="Keep the repository and the stores in DIR."
)
def demo(shell: Shell, keep: str | None) -> int:
    """An agent is killed at the worst moment, and goes on: nothing lost, nothing twice. No key, no server.

    Its model is scripted, and everything else is real. Runs in a SQLite store of its own; with --store, in that one.
    """
    from perdure.agent.commands.sandbox import Level, available
    from perdure.cli.demo.environment import DemoEnvironment
    from perdure.cli.demo.fixtures import make_repository
    from perdure.cli.demo.folder import own_folder
    from perdure.cli.demo.scenario import Scenario
    from perdure.ids import new_name
    from perdure.testing.sink import Sink

    if shell.store_option == "memory:":
        raise ConfigError("A store in memory ends with its process, and here it is killed.", hint="Name another store.")
    with nullcontext(keep) if keep else own_folder() as name:
        folder = Path(name).absolute()
        if keep and folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty.", hint="Name a folder that is empty or does not exist.")
        folder.mkdir(parents=True, exist_ok=True)
        make_repository(folder)
        level = available()
        with Sink(folder / "service") as service:
            scene = DemoEnvironment(
                folder, service, store=_absolute(shell.store_option), sandboxed=level is not Level.NONE
            )
            story = Scenario(scene, new_name("fix") if shell.store_option else "fix")
            return Narrator(shell, story, str(level), folder if keep else None).tell()


def _absolute(store: str | None) -> str | None:
    """The address, as it is understood in another folder."""
    from perdure.store.inspection.read_access import locate_store

    place = None if store is None else locate_store(store)
    return place.shown if place is not None and place.path is not None else store


class Narrator:
    """Tells the story as it happens, and judges it in the end."""

    def __init__(self, shell: Shell, story: Scenario, sandbox: str, kept: Path | None) -> None:
        self.shell = shell
        self.story = story
        self.sandbox = sandbox
        self.kept = kept
        self.facts: dict[str, Any] = {"session": story.session, "sandbox": sandbox}
        self.right = True

    def tell(self) -> int:
        self.say(OPENING, SANDBOXED.format(self.sandbox) if self.sandbox != "none" else NO_SANDBOX)
        known = self.kill()
        self.plan(known)
        self.recover(known.cursor)
        self.push()
        self.fork(known.fork_at)
        self.count(self.move())
        if self.shell.json:
            self.shell.echo_json(self.facts | {"right": self.right})
        self.say("", RIGHT if self.right else WRONG, "", *self.around())
        return 0 if self.right else 1

    def kill(self) -> DemoState:
        self.act("1. An agent fixes a failing test, and is killed")
        killed, known = self.story.work_and_be_killed()
        self.typed(killed)
        self.did(known.steps)
        self.say(f"   [bold]kill -9 {killed.pid}[/]", KILLED)
        self.facts |= {"killed": killed, "ledger": known.states}
        window = known.states.get("post_comment") == ["dispatched"]
        self.right &= killed.kept_at_kill == 1 and window
        return known

    def plan(self, known: DemoState) -> None:
        self.act("2. What is known, and what will be done")
        self.say(f"   at the service  {self.facts['killed'].kept_at_kill} comment")
        self.say(f"   in the ledger   post_comment: {', '.join(known.states.get('post_comment', ()))}, outcome unknown")
        looked, plan = self.story.plan()
        self.typed(looked)
        self.lines(f"{one['tool']}: {one['action']}. {one['why']}" for one in plan)
        self.facts["plan"] = plan
        self.right &= [one["action"] for one in plan] == ["probe"]

    def recover(self, since: int) -> None:
        self.act("3. It goes on in another process")
        lived, known = self.story.go_on(since)
        self.typed(lived)
        self.lines(known.log)
        self.lines(["git_push: held back, until a person says yes. Until then no process is needed."])
        self.facts |= {"recovery": known.log, "waited": known.status, "approvals": known.approvals}
        self.right &= lived.code == 3 and len(known.approvals) == 1

    def push(self) -> None:
        self.act("4. A person says yes (played by the demo)")
        (approval,) = self.facts["approvals"]
        for one in self.story.say_yes(approval):
            self.typed(one)
            self.answered(one)

    def fork(self, at: int) -> None:
        self.act("5. Another fix, in a branch with a folder of its own")
        lives, known, tails = self.story.try_another(at)
        for one in lives:
            self.typed(one)
        self.did(known.steps)
        self.answered(lives[-1])
        self.lines(f"{f'in {name}':14}  {text.strip()}" for name, text in tails.items())
        self.facts["branch"] = {"session": self.story.branch, "steps": known.steps, "says": tails}
        passed = any(one.about.endswith("exit 0") for one in known.steps)
        self.right &= passed and len(set(tails.values())) == 2 and "post_comment" not in known.states

    def move(self) -> dict[str, int]:
        self.act("6. It moves to another store, and goes on there")
        lives, known = self.story.move()
        for one in lives:
            self.typed(one)
        self.answered(lives[-1])
        self.facts["moved"] = known.status
        return known.asked

    def count(self, asked: dict[str, int]) -> None:
        self.act("7. Count: at the service, in the repository, at the remote")
        counts = self.story.count(asked)
        self.say(*table(counts))
        self.facts["counts"] = counts
        self.right &= all((one.at_service, one.duplicated, one.lost) == (one.wanted, 0, 0) for one in counts)
        self.right &= [one.asked for one in counts] == [0, 0, 1]

    def act(self, heading: str) -> None:
        self.say("", f"[bold]{heading}[/]")

    def typed(self, life: CommandRun) -> None:
        """What was typed, and in which process it ran."""
        line = shlex.join(["perdure", *(word for word in life.typed if word != "--json")])
        self.lines([f"$ {line}"], style="cyan")

    def did(self, steps: list[DemoStep]) -> None:
        for one in steps:
            failed = f" ({one.status})" if one.status not in ("done", None) else ""
            self.lines([f"{one.tool:13} {one.about}{failed}"], indent=17)

    def answered(self, life: CommandRun) -> None:
        """What it said in the end, if the agent has the last word."""
        said = [line for line in life.said if line.strip()]
        if life.typed[0] == "resume":
            self.lines([f'"{said[-1]}"' if said else ""])

    def lines(self, given: Any, *, style: str = "", indent: int = 5) -> None:
        """Text from a session, made harmless, in lines that fit."""
        from rich.markup import escape

        from perdure.cli.text.plain import safe

        for text in given:
            whole = wrap(safe(text), WIDTH, initial_indent="   ", subsequent_indent=" " * indent)
            said = (escape(line) for line in whole)
            self.say(*(f"[{style}]{line}[/]" if style else line for line in said))

    def say(self, *lines: str) -> None:
        if not self.shell.json:
            self.shell.echo_rich(*lines)

    def around(self) -> Iterator[str]:
        """Where to go on: what is still there to look at, and how to do it with a repository of one's own."""
        from rich.markup import escape

        from perdure.cli.agent_prompt import EXAMPLE
        from perdure.store.inspection.read_access import locate_store

        store = [] if self.shell.store_option is None else ["--store", locate_store(self.shell.store_option).shown]
        where = f"in {self.kept}" if self.kept else "after `perdure demo --keep DIR`, in DIR"
        yield escape(f"Look around, {where}:")
        for words, what in LOOKS.items():
            line = shlex.join(["perdure", *words.format(session=self.story.session).split(), *store])
            yield escape(f"   {line:36}  {what}")
        yield from ("", "On a repository of yours, with a key of yours:", f"   export {KEY}=...")
        yield escape(f'   perdure run "fix the failing test" --model {EXAMPLE}')


def table(counts: list[EffectCount]) -> list[str]:
    from perdure.cli.text.grid import grid

    headings = ("", "effects wanted", "at the service", "duplicated", "lost", "asked")
    rows = [[one.what, *map(str, (one.wanted, one.at_service, one.duplicated, one.lost, one.asked))] for one in counts]
    return [f"   {line}" for line in grid(headings, rows, width=WIDTH)]


OPENING = """\
An agent fixes a failing test, commits, comments on a pull request and pushes.
Its model is scripted: no key, no network. Everything else is real: the
repository, the commands, the service that keeps the comment, the kill. Each
line that begins with $ is a process of its own."""

SANDBOXED = "Commands of the agent run in a sandbox ({})."
NO_SANDBOX = "[yellow]No sandbox can be had here, so commands of the agent run without one.[/]"

KILLED = """\
   The service has committed the comment, and Perdure has not recorded it. (The
   tool was told to stand still there, so that the kill always hits this moment.
   The kill is real.)"""

RIGHT = "[green]Nothing is there twice, and nothing is lost.[/]"
WRONG = "[bold red]This is wrong, and must never happen; please report it with what stands above.[/]"

LOOKS = {
    "show {session}": "the session: waits, effects, events",
    "brief {session}-2": "what whoever takes over must know",
    "effects": "the ledger",
}
KEY = "ANTHROPIC_API_KEY"
