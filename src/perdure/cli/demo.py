"""`perdure demo`: runs `examples/five_tasks.py` in a process of its own, kills it twice, and tells what was left.

The demo believes nothing that the program says about itself after a kill: what was computed is counted from what each
process printed while it lived, and what was recorded is read back from the store.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from perdure.cli.command import Shell, command
from perdure.errors import ConfigError, SessionFailed

if TYPE_CHECKING:
    from rich.table import Table

STOPS = ("after task 2", "inside task 4", "")
LIMIT = 60.0


class Task(msgspec.Struct):
    """One task: what became of it in each run, how often it was computed, and what the store says it gave."""

    number: int
    title: str
    runs: list[str]
    computed: int
    result: Any


class Run(msgspec.Struct):
    """One life of the program: what it said, and whether it was killed."""

    said: list[str]
    killed: bool


class Story(msgspec.Struct):
    """What happened in one store."""

    store: str
    tasks: list[Task]
    kills: int
    events: int
    result: Any


@command
@click.option("--keep", metavar="DIR", type=click.Path(file_okay=False), help="Keep the stores in DIR, to look at.")
def demo(shell: Shell, keep: str | None) -> int:
    """Five tasks, killed twice, finished all the same. No key, no server.

    Runs in text files and in SQLite, both made for the demo; with --store, in that store as well.
    """
    with tempfile.TemporaryDirectory(prefix="perdure-demo-") as temporary:
        folder = Path(keep or temporary).absolute()
        if keep and folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty.", hint="Name a folder that is empty or does not exist.")
        folder.mkdir(parents=True, exist_ok=True)
        if not shell.json:
            shell.show(OPENING)
        stories = []
        for name, target in targets(folder, shell.given):
            stories.append(tell(name, target))
            if not shell.json:
                shell.show("", f"[bold]{stories[-1].store}[/]", table(stories[-1]))
        untouched = result_of(live("memory:", "never-killed", stop=""))
    same = all(story.result == untouched for story in stories)
    if shell.json:
        shell.emit({"stories": stories, "never_killed": untouched, "same": same})
    else:
        shell.show(*ending(stories, untouched, same, keep))
    return 0 if same else 1


def targets(folder: Path, given: str | None) -> list[tuple[str, str]]:
    from perdure.store.doctor import place_of

    own = [("text files", f"files:{folder / 'files'}"), ("SQLite", str(folder / "demo.db"))]
    return [*own, ("your store", given)] if given and place_of(given).kind != "memory" else own


def script() -> Path:
    """The program that is killed: shipped beside this module, or, in a working copy, an example to read."""
    shipped = Path(__file__).with_name("five_tasks.py")
    return shipped if shipped.exists() else Path(__file__).parents[3] / "examples" / "five_tasks.py"


def tell(name: str, target: str) -> Story:
    """Run the program until it is done, killing it on the way, and read back what the store kept."""
    from perdure.ids import decode, new_name
    from perdure.store import event, session, step
    from perdure.store import task as plan
    from perdure.store.store import open_store

    id = new_name("demo")
    runs = [live(target, id, stop=stop) for stop in STOPS]
    with open_store(target) as store:
        kept = store.read_now(event.verify, store.read_now(session.get_by_id, id).uid)
        steps = {one.name: one for one in store.read_now(step.of_session, kept.uid, kept.restart_number)}
        titles = {one.id: one.title for one in store.read_now(plan.of_session, kept.uid)}
    tasks = [
        Task(
            number,
            title,
            [became(run, number) for run in runs],
            computed(runs, number),
            decode(steps[id].result or "null"),
        )
        for number, (id, title) in enumerate(sorted(titles.items()), 1)
    ]
    return Story(name, tasks, sum(run.killed for run in runs), kept.cursor, kept.result)


def live(target: str, id: str, *, stop: str) -> Run:
    """Run the program once; when it says that it stands where it should die, kill it."""
    arguments = [sys.executable, str(script()), target, "--session", id, "--stop", stop]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        limit = threading.Timer(LIMIT, process.kill)
        limit.start()
        said = []
        for line in process.stdout or ():
            said.append(line.strip())
            if line.startswith("stopped: "):
                process.send_signal(signal.SIGKILL)
        errors = process.communicate()[1].strip().splitlines()
        limit.cancel()
    if process.returncode != (-signal.SIGKILL if stop else 0):
        raise SessionFailed(f"The program ended with {process.returncode}: {''.join(errors[-1:]) or 'no message'}.")
    return Run(said, process.returncode == -signal.SIGKILL)


def result_of(run: Run) -> Any:
    return msgspec.json.decode(run.said[-1].removeprefix("result: "))


def became(run: Run, number: int) -> str:
    """What one life of the program did with a task."""
    said = [line.split()[2] for line in run.said if line.startswith(f"task {number}: ")]
    return "lost" if said[-1:] == ["computing"] else "".join(said[-1:])


def computed(runs: list[Run], number: int) -> int:
    return sum(run.said.count(f"task {number}: computing") for run in runs)


OPENING = """\
Five tasks, each building on the one before. The program is killed with SIGKILL after task 2, started again,
killed inside task 4 before its result was recorded, and started once more."""


def table(story: Story) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from perdure.ids import encode

    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("task", "run 1", "run 2", "run 3", "computed", "result"):
        width = {"task": max(len(task.title) for task in story.tasks) + 2, "result": None}.get(heading, 8)
        shown.add_column(heading, no_wrap=True, overflow="ellipsis", min_width=width)
    for task in story.tasks:
        often = {1: "once", 2: "twice"}.get(task.computed, f"{task.computed} times")
        shown.add_row(f"{task.number} {task.title}", *task.runs, often, escape(encode(task.result)))
    return shown


def ending(stories: list[Story], untouched: Any, same: bool, keep: str | None) -> list[str]:
    if same:
        where = " = ".join(story.store for story in stories)
        verdict = f"[green]The same result, {untouched}:[/] {where} = a run that nobody killed."
    else:
        found = ", ".join(f"{story.store} {story.result}" for story in stories)
        verdict = f"[bold red]The results differ:[/] {found}, without a kill {untouched}."
    events = ", ".join(str(story.events) for story in stories)
    kept = [f"The stores are in {keep}. Read {Path(keep) / 'files' / 'sessions'}: it is text."] if keep else []
    return [
        "",
        verdict,
        "",
        MEANING,
        f"Each session's log was read back ({events} events) and its chain verifies.",
        *kept,
    ]


MEANING = """\
recorded  computed, and in the store before the next task began
kept      taken from the store by a later run, not computed again
lost      computed, and killed before it was recorded: computed again by the next run

Computing twice is harmless. Acting twice is not: acts on the outside world need the effect ledger,
which is still being built and is not part of this demo."""
