"""Five tasks, killed with -9 wherever it may be: the same result, and nothing computed again that was recorded."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from perdure.domain.task import TaskState
from perdure.store.moves import decision, event, session, task
from perdure.store.store import open_store
from tests.tidy.source import ROOT

SCRIPT = str(ROOT / "examples" / "five_tasks.py")
TASKS = range(1, 6)
PLACES = [place for number in TASKS for place in (f"inside task {number}", f"after task {number}")]


class Life(NamedTuple):
    """One life of the program: what it printed while it lived, and how it ended."""

    said: list[str]
    code: int
    errors: str

    def became(self, number: int) -> str:
        """What this life did with a task; `lost` is what was computed and killed before it was recorded."""
        words = [line.split()[2] for line in self.said if line.startswith(f"task {number}: ")]
        return "lost" if words[-1:] == ["computing"] else "".join(words[-1:])

    @property
    def result(self) -> Any:
        return json.loads(self.said[-1].removeprefix("result: "))


def live(target: str, *, stop: str = "", name: str = "s-1") -> Life:
    """Run the program once; where it says that it stands still, kill it."""
    line = [sys.executable, SCRIPT, target, "--session", name, "--stop", stop]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said = []
        for text in process.stdout or ():
            said.append(text.strip())
            if text.startswith("stopped: "):
                process.send_signal(signal.SIGKILL)
        errors = process.communicate()[1]
    assert process.returncode == -signal.SIGKILL or not stop, errors
    return Life(said, process.returncode, errors)


def computed(lives: list[Life], number: int) -> int:
    return sum(life.said.count(f"task {number}: computing") for life in lives)


@pytest.mark.slow
@pytest.mark.databases("files", "sqlite", "postgres")
def test_killed_at_a_boundary_and_inside_a_task_it_ends_as_if_nobody_had_killed_it(target: str) -> None:
    lives = [live(target, stop="after task 2"), live(target, stop="inside task 4"), live(target)]
    assert [life.code for life in lives] == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert [[life.became(number) for life in lives] for number in TASKS] == [
        ["recorded", "kept", "kept"],
        ["recorded", "kept", "kept"],
        ["", "recorded", "kept"],
        ["", "lost", "recorded"],
        ["", "", "recorded"],
    ]
    assert [computed(lives, number) for number in TASKS] == [1, 1, 1, 2, 1]
    assert lives[-1].result == live("memory:").result == 35


@pytest.mark.slow
@pytest.mark.databases("files", "sqlite")
def test_killed_at_every_place_it_computes_again_only_what_was_not_recorded(target: str) -> None:
    lives = [*(live(target, stop=place) for place in PLACES), live(target)]
    assert lives[-1].result == 35
    assert [computed(lives, number) for number in TASKS] == [2] * 5
    with open_store(target) as store:
        kept = store.read_now(event.verify, store.read_now(session.get_by_id, "s-1").uid)
        assert {one.state for one in store.read_now(task.of_session, kept.uid)} == {TaskState.DONE}
        assert store.read_now(decision.incomplete, kept.uid) == []
        assert kept.crash_count in (1, 2)  # each life but those that were killed inside a task got further


@pytest.mark.slow
@pytest.mark.databases("sqlite")
def test_a_second_process_does_not_take_the_session_from_a_living_one(target: str) -> None:
    line = [sys.executable, SCRIPT, target, "--session", "s-1", "--stop", "after task 1"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert "stopped: after task 1\n" in iter(first.stdout.readline, "")
        second = live(target)
        assert (second.code, "LeaseHeld" in second.errors) == (1, True)
        first.send_signal(signal.SIGKILL)
    assert live(target).result == 35
