"""Five tasks, killed at any point: the result is the same, and recorded results are not computed again."""

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


class ProcessRun(NamedTuple):
    """One process of the program: what it printed, and how it ended."""

    said: list[str]
    code: int
    errors: str

    def became(self, number: int) -> str:
        """What this process did with a task; `lost`: it was killed after computing and before recording."""
        words = [line.split()[2] for line in self.said if line.startswith(f"task {number}: ")]
        return "lost" if words[-1:] == ["computing"] else "".join(words[-1:])

    @property
    def result(self) -> Any:
        return json.loads(self.said[-1].removeprefix("result: "))


def live(target: str, *, stop: str = "", name: str = "s-1") -> ProcessRun:
    """Run the program once; kill it where it pauses."""
    line = [sys.executable, SCRIPT, target, "--session", name, "--stop", stop]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said = []
        for text in process.stdout or ():
            said.append(text.strip())
            if text.startswith("stopped: "):
                process.send_signal(signal.SIGKILL)
        errors = process.communicate()[1]
    assert process.returncode == -signal.SIGKILL or not stop, errors
    return ProcessRun(said, process.returncode, errors)


def computed(lives: list[ProcessRun], number: int) -> int:
    return sum(life.said.count(f"task {number}: computing") for life in lives)


@pytest.mark.slow
@pytest.mark.databases("files", "sqlite", "postgres")
def test_result_is_the_same_after_kills_between_and_inside_tasks(target: str) -> None:
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
def test_only_unrecorded_tasks_are_computed_again(target: str) -> None:
    lives = [*(live(target, stop=place) for place in PLACES), live(target)]
    assert lives[-1].result == 35
    assert [computed(lives, number) for number in TASKS] == [2] * 5
    with open_store(target) as store:
        kept = store.read_now(event.verify, store.read_now(session.get_by_id, "s-1").uid)
        assert {one.state for one in store.read_now(task.of_session, kept.uid)} == {TaskState.DONE}
        assert store.read_now(decision.incomplete, kept.uid) == []
        assert kept.crash_count in (1, 2)  # every process made progress, except those killed inside a task


@pytest.mark.slow
@pytest.mark.databases("sqlite")
def test_second_process_cannot_take_the_session_from_a_living_one(target: str) -> None:
    line = [sys.executable, SCRIPT, target, "--session", "s-1", "--stop", "after task 1"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert "stopped: after task 1\n" in iter(first.stdout.readline, "")
        second = live(target)
        assert (second.code, "LeaseHeld" in second.errors) == (1, True)
        first.send_signal(signal.SIGKILL)
    assert live(target).result == 35
