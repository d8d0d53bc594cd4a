"""`perdure demo`: one comment, killed at the worst moment, and still one comment.

start    a service: an HTTP server in a process of its own, with a synced log of its own
run      `examples/one_comment.py` in another process: it reads, decides, posts
kill     SIGKILL from here, once the service's log has the comment and before Perdure could record it
look     at the service's log, at the ledger, at the recovery plan
again    the program once more, in a new process
count    from the service's log, which decides the exit code
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.command import Shell, command
from perdure.cli.plain import count
from perdure.errors import ConfigError

if TYPE_CHECKING:
    from rich.padding import Padding

    from perdure.cli.scene import Counts, Known, Life, Scene
    from perdure.runtime.recovery import Recovery


@command
@click.option("--keep", metavar="DIR", type=click.Path(file_okay=False), help="Keep the store and the logs in DIR.")
def demo(shell: Shell, keep: str | None) -> int:
    """One comment, killed at the worst moment: still one comment. No key, no server.

    Runs in a SQLite store of its own; with --store, in that one.
    """
    from perdure.cli.scene import Scene
    from perdure.ids import new_name
    from perdure.testing.sink import Sink

    if shell.given == "memory:":
        raise ConfigError("A store in memory ends with its process, and here it is killed.", hint="Name another store.")
    place = nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="perdure-demo-")
    with place as name:
        folder = Path(name).absolute()
        if keep and folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty.", hint="Name a folder that is empty or does not exist.")
        folder.mkdir(parents=True, exist_ok=True)
        target = shell.given or str(folder / "demo.db")
        session = new_name("review-7") if shell.given else "review-7"
        with Sink(folder / "service") as service:
            first = Scene(target, service, "probe", session)
            second = Scene(target, service, "escalate", f"{session}-escalate")
            return tell(shell, target, first, second, folder if keep else None)


def tell(shell: Shell, target: str, scene: Scene, other: Scene, kept: Path | None) -> int:
    """Tell the story as it happens, and judge it in the end."""
    from perdure.cli.scene import WANTED, contrast

    show: Callable[..., None] = (lambda *_: None) if shell.json else shell.show
    show(OPENING, "")
    killed = scene.live(kill=True)
    show(f"[bold]1. Run it, and kill it[/]   process {killed.pid}", *said(killed.said), KILLED, "")
    before = scene.look()
    show("[bold]2. What is known now[/]", *known(killed, before), "", PLAN, plan_table(before.plan), "")
    again = scene.live()
    after = scene.look(since=before.cursor)
    show(f"[bold]3. Run it again[/]   process {again.pid}", *said(again.said), "", LOG, *said(after.log), "")
    counts = [scene.count(after), contrast(other)]
    show("[bold]4. Count[/]   in the service's own log; who was asked, in the session's", counts_table(counts))
    right = killed.kept_at_kill == WANTED and before.in_the_window and all(one.right for one in counts)
    if shell.json:
        shell.emit({
            "store": shown(target), "session": scene.session, "killed": killed, "ledger": before.effects,
            "plan": before.plan, "again": again, "log": after.log, "counts": counts, "right": right,
        })  # fmt: skip
    show("", CONTRAST, "", RIGHT if right else WRONG, "", *around(shell, target, scene.session, before.cursor, kept))
    return 0 if right else 1


def said(lines: list[str]) -> list[str]:
    from rich.markup import escape

    return [f"   {escape(line)}" for line in lines]


def known(killed: Life, before: Known) -> list[str]:
    lines = [f"at the service   {count(killed.kept_at_kill or 0, 'comment')}"]
    for one in before.effects:
        attempts = one["attempts"]
        lines.append(f"in the ledger    {one['tool']}: {one['state']}, attempt {len(attempts)}, outcome {attempts[-1]}")
    return said(lines)


def plan_table(plan: list[Recovery]) -> Padding:
    rows = [(one.effect_id, one.state, one.action, one.why) for one in plan]
    return table(("effect", "state", "what will be done", "why"), rows)


def counts_table(counts: list[Counts]) -> Padding:
    rows = [(one.replay, one.wanted, one.at_service, one.duplicated, one.lost, one.people_asked) for one in counts]
    return table(("tool declared", "effects wanted", "at the service", "duplicated", "lost", "people asked"), rows)


def table(headings: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Padding:
    from rich.markup import escape
    from rich.padding import Padding
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        made.add_column(heading, no_wrap=heading != "why")
    for row in rows:
        made.add_row(*(escape(str(cell)) for cell in row))
    return Padding(made, (0, 0, 0, 3))


def shown(target: str) -> str:
    from perdure.store.doctor import place_of

    return place_of(target).shown


def around(shell: Shell, target: str, session: str, at: int, kept: Path | None) -> list[str]:
    """Where to go on: what is still there to look at, and how to try it with a tool of one's own."""
    from shlex import join

    if shell.given is None and kept is None:
        return ["Look around: `perdure demo --keep DIR` keeps the store and the service's log.", OWN]
    store = ["--store", shown(target)]
    ways = {
        join(["perdure", "show", session, *store]): "the session's log",
        join(["perdure", "show", session, "--at", str(at), *store]): "what was known at the kill",
        join(["perdure", "effects", *store]): "the ledger",
    }
    widest = max(map(len, ways))
    outside = [] if kept is None else [f"The service's own log: {kept / 'service' / session}.jsonl"]
    return ["Look around:", *said([f"{way:{widest}}  {what}" for way, what in ways.items()]), *outside, OWN]


OPENING = """\
A program reviews a pull request: it reads the diff, decides, and posts one
comment. The comment goes to a real HTTP service in a process of its own, which
knows nothing about Perdure: every POST makes a comment."""

KILLED = """\
   SIGKILL, from outside: the service has committed, Perdure has not recorded.
   (The tool was told to stand still there, so that the kill always hits this
   moment. The kill is real.)"""

PLAN = "   What the next run will do about it, and why:"

LOG = "   What recovery decided, and on what evidence, in the session's log:"

CONTRAST = """\
   The second line is the same program, killed at the same moment, with its tool
   declared `escalate`: nobody but a person can tell. So a person was asked, and
   nothing was guessed. (The demo looked at the service, and answered.)"""

RIGHT = "[green]Two kills. Nothing is there twice, and nothing is lost.[/]"
WRONG = "[bold red]The counts are wrong. This must never happen; please report it with what stands above.[/]"

OWN = "Your own program, killed at every such moment: docs/how-to/crash-sweep.md"
