"""What a model says in another process, seen at a real terminal while it is said. Each piece waits for a sign."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from tests.cli.agents import Work

APP = str(Path(__file__).with_name("slowly.py"))


class Slowly:
    """A detached session whose model is given leave piece by piece."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.folder = work.folder
        self.worker = 0

    def begin(self, *replies: list[Any], first: int = 1) -> None:
        self.says(*replies)
        self.go(first)
        self.worker = self.work.terminal.process(*self.words, "--detach", "--json").json["worker"]["pid"]

    @property
    def words(self) -> list[str]:
        return ["run", "slow_speaker", f"prompt={self.folder}", "--id", "one"]

    def says(self, *replies: list[Any]) -> None:
        (self.folder / "pieces.json").write_text(json.dumps(replies))

    def go(self, pieces: int, reply: int = 0) -> None:
        """Give leave for so many pieces of a reply."""
        for nth in range(pieces):
            (self.folder / f"go-{reply}-{nth}").touch()

    def recorded(self, id: str = "one") -> list[str]:
        events = self.work("show", id, "--json", "--last", "100").json["events"]
        said = [one["body"] for one in events if one["kind"] == "message"]
        return [one["content"] for one in said if one["role"] == "assistant"]

    @property
    def live(self) -> Path:
        folder = self.work.terminal.folder / "perdure.db.d" / "live"
        return folder / str(self.work.session()["uid"])


@pytest.fixture
def slowly(work: Work, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slowly]:
    monkeypatch.setenv("PERDURE_APP", APP)
    made = Slowly(work)
    yield made
    if made.worker:
        with suppress(ProcessLookupError):
            os.kill(made.worker, signal.SIGKILL)


@pytest.mark.slow
def test_every_watcher_sees_each_piece_before_the_message_is_recorded_and_nothing_twice(slowly: Slowly) -> None:
    slowly.begin(["One ", "two ", "three."], ["Four."])
    with slowly.work.sit("attach", "one") as first:
        first.until("\nOne ")
        assert slowly.recorded() == []
        slowly.go(2)
        first.until("One two ")
        with slowly.work.sit("attach", "one") as second:  # one that comes in the middle
            second.until("\nOne two ")
            assert slowly.recorded() == []
            slowly.go(4)
            for seat in (first, second):
                seat.until("1 model call\n")
                seat.until("\n> ")
                assert seat.text.count("One two three.\n") == seat.text.count("One") == 1
            slowly.go(2, reply=1)
            second.type("more\n")
            first.until("\nFour.\n")
            without_holder = re.sub(r".* has held it for .*\n", "", first.text)  # shown here if not before
            assert "> more\nFour.\n" in without_holder
        assert slowly.recorded() == ["One two three.", "Four."]
        assert not slowly.live.exists()


@pytest.mark.slow
def test_text_of_a_killed_worker_is_said_to_have_broken_off_and_the_new_answer_is_shown(slowly: Slowly) -> None:
    slowly.begin(["Half an "])
    with slowly.work.sit("attach", "one") as seat:
        seat.until("\nHalf an ")
        os.kill(slowly.worker, signal.SIGKILL)
        seat.until("Half an\n… the reply broke off here, and is not recorded\n")
        left = slowly.live
        assert left.exists()
        with slowly.work.sit("attach", "one") as late:  # what the dead left is not shown
            late.until("Press Enter to take it over > ")
            assert "Half" not in late.text
        slowly.says(["Whole ", "answer."])
        seat.until("Press Enter to take it over > ")
        seat.type("\n")
        seat.until("\nWhole ")
        assert slowly.recorded() == []
        slowly.go(3)
        seat.until("Whole answer.\n  1 model call\n")
        assert (seat.text.count("Half"), seat.text.count("Whole"), seat.text.count("broke off")) == (1, 1, 1)
    assert slowly.recorded() == ["Whole answer."]
    assert not left.exists()


@pytest.mark.slow
def test_a_sub_agent_is_seen_at_its_work_further_to_the_right(slowly: Slowly) -> None:
    task = {"delegate": {"task": str(slowly.folder / "below")}}
    (slowly.folder / "below").mkdir()
    (slowly.folder / "below" / "pieces.json").write_text(json.dumps([["Below\n\x1b[2J", "it ends."]]))
    slowly.begin(["I ask.", task], ["Done."], first=2)
    with slowly.work.sit("attach", "one") as seat:
        seat.until("I ask.\n")
        seat.until(f"\n  │ > {slowly.folder}/below\n")
        for nth in range(3):
            (slowly.folder / "below" / f"go-0-{nth}").touch()
        seat.until("  │ Below\n  │ \\x1b[2Jit ends.\n  │   1 model call\n  ● delegate")
        slowly.go(2, reply=1)
        seat.until("Done.\n  2 model calls\n")
        shown = seat.text
    later = slowly.work.terminal.process("attach", "one").out
    told = [line for line in later.splitlines() if line.startswith("  │ ")]
    assert told == [line for line in shown.splitlines() if line.startswith("  │ ")]
    assert "it ends" not in "".join(
        str(one) for one in slowly.work.terminal.process("attach", "one", "--json").lines[:-4]
    )


def read_until(process: Popen[str], kind: str) -> list[dict[str, Any]]:
    """The objects of a stream, to the first of a type."""
    read: list[dict[str, Any]] = []
    assert process.stdout is not None
    while not read or read[-1]["type"] != kind:
        read.append(json.loads(process.stdout.readline()))
    return read


def shape(stream: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is the same in every stream of the same conversation."""
    kept = [{key: one[key] for key in one if key not in ("at", "session")} for one in stream]
    return [one | ({"waits": None} if "waits" in one else {}) for one in kept]


@pytest.mark.slow
@pytest.mark.databases("sqlite", "postgres")
def test_a_script_that_watches_reads_what_one_reads_that_runs_it(
    slowly: Slowly, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_STORE", target)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(slowly.work.terminal.folder))
    slowly.says(["One ", "two."])
    slowly.go(1)
    with slowly.work.terminal.start(*slowly.words, "--json") as runs:
        heard = [read_until(runs, "item.updated")]
        with slowly.work.terminal.start("attach", "one", "--json") as watches:
            heard.append(read_until(watches, "item.updated"))
            assert slowly.recorded() == []
            assert (heard[1][-2]["type"], heard[1][-1]["item"]["delta"]) == ("item.started", "One ")
            assert "number" not in heard[1][-1]
            slowly.go(2)
            for stream, process in zip(heard, (runs, watches), strict=True):
                stream += read_until(process, "item.updated")
            slowly.go(3)
            for stream, process in zip(heard, (runs, watches), strict=True):
                stream += read_until(process, "session.waiting")
    assert (runs.returncode, watches.returncode) == (0, 0)
    streams = [shape(one) for one in heard]
    assert streams[0] == streams[1]
    assert [one["item"].get("text") for one in streams[0] if one["type"] == "item.completed"][-1] == "One two."


@pytest.mark.slow
def test_the_log_has_what_is_being_said_in_its_last_row_until_it_is_on_record(slowly: Slowly) -> None:
    slowly.begin(["One\x1b[2J\n", "two."])
    with slowly.work.sit("show", "one", "--follow") as seat:
        seat.until("\nOne\\x1b[2J")
        slowly.go(2)
        seat.until("\nOne\\x1b[2J two.")
        assert slowly.recorded() == []
        slowly.go(3)
        seat.until("it waits for")
        assert seat.text.count("two.") == 1
        assert not seat.text.splitlines()[-1].startswith("One")


@pytest.mark.slow
def test_without_a_place_for_live_text_everything_else_goes_on(slowly: Slowly) -> None:
    slowly.work("ls")
    place = slowly.work.terminal.folder / "perdure.db.d"
    place.mkdir(exist_ok=True)
    (place / "live").write_text("a file where the folder should be")
    slowly.begin(["One ", "two."], first=3)
    said = slowly.work.terminal.process("attach", "one")
    assert (said.code, said.out.count("One two.\n  1 model call\n")) == (0, 1)
    assert slowly.recorded() == ["One two."]
