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

from tests.cli.support.agents import AgentFolder

APP = str(Path(__file__).parents[1] / "support" / "stepped_model.py")


class SteppedSession:
    """A detached session whose model is given leave piece by piece."""

    def __init__(self, work: AgentFolder) -> None:
        self.work = work
        self.folder = work.folder
        self.worker = 0

    def begin(self, *replies: list[Any], first: int = 1) -> None:
        self.says(*replies)
        self.go(first)
        self.worker = self.work.terminal.process(*self.words, "--detach", "--json").json["worker"]["pid"]

    @property
    def words(self) -> list[str]:
        return ["run", "stepped_agent", f"prompt={self.folder}", "--id", "one"]

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
def stepped(work: AgentFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[SteppedSession]:
    monkeypatch.setenv("PERDURE_APP", APP)
    made = SteppedSession(work)
    yield made
    if made.worker:
        with suppress(ProcessLookupError):
            os.kill(made.worker, signal.SIGKILL)


@pytest.mark.slow
def test_watchers_see_live_text_before_it_is_recorded_and_once(stepped: SteppedSession) -> None:
    stepped.begin(["One ", "two ", "three."], ["Four."])
    with stepped.work.open_terminal("attach", "one") as first:
        first.until("\nOne\n")
        assert stepped.recorded() == []
        stepped.go(2)
        first.until("\nOne two\n")
        with stepped.work.open_terminal("attach", "one") as second:  # one that comes in the middle
            second.until("\nOne two\n")
            assert stepped.recorded() == []
            stepped.go(4)
            for seat in (first, second):
                seat.until("1 model call\n")
                seat.until("\n> ")
                assert seat.text.count("One two three.\n") == seat.text.count("One") == 1
            stepped.go(2, reply=1)
            second.type("more\n")
            first.until("\nFour.\n")
            without_holder = re.sub(r".* has held it for .*\n", "", first.text)  # shown here if not before
            assert "> more\nFour.\n" in without_holder
        assert stepped.recorded() == ["One two three.", "Four."]
        assert not stepped.live.exists()


@pytest.mark.slow
def test_live_text_of_a_killed_worker_is_marked_as_broken_off(stepped: SteppedSession) -> None:
    stepped.begin(["Half an "])
    with stepped.work.open_terminal("attach", "one") as seat:
        seat.until("\nHalf an\n")
        os.kill(stepped.worker, signal.SIGKILL)
        seat.until("Half an\n… the reply broke off here, and is not recorded\n")
        left = stepped.live
        assert left.exists()
        with stepped.work.open_terminal("attach", "one") as late:  # what the dead left is not shown
            late.until("Press Enter to take it over > ")
            assert "Half" not in late.text
        stepped.says(["Whole ", "answer."])
        seat.until("Press Enter to take it over > ")
        seat.type("\n")
        seat.until("\nWhole\n")
        assert stepped.recorded() == []
        stepped.go(3)
        seat.until("Whole answer.\n  1 model call\n")
        assert (seat.text.count("Half"), seat.text.count("Whole"), seat.text.count("broke off")) == (1, 1, 1)
    assert stepped.recorded() == ["Whole answer."]
    assert not left.exists()


@pytest.mark.slow
def test_markdown_is_rendered_once_at_a_terminal_and_raw_in_a_pipe(stepped: SteppedSession) -> None:
    stepped.begin(["# Ti", "tle\n**bo", "ld** می\u200c", "خواهم\n"])
    with stepped.work.open_terminal("attach", "one") as seat:
        seat.until("\nTi\n")
        stepped.go(2)
        seat.until("\nTitle\n**bo\n")
        assert "\x1b[1;4mTitle" in seat.raw
        stepped.go(5)
        seat.until("\nTitle\nbold می\u200cخواهم\n  1 model call\n")
        assert seat.text.count("Title") == 1
        assert "\x1b[1mbold\x1b[0m" in seat.raw
    assert "# Title\n**bold** می\u200cخواهم\n" in stepped.work.terminal.process("attach", "one").out


@pytest.mark.slow
def test_sub_agent_is_shown_indented(stepped: SteppedSession) -> None:
    task = {"delegate": {"task": str(stepped.folder / "below")}}
    (stepped.folder / "below").mkdir()
    (stepped.folder / "below" / "pieces.json").write_text(json.dumps([["Below\n\x1b[2J", "it ends."]]))
    stepped.begin(["I ask.", task], ["Done."], first=2)
    with stepped.work.open_terminal("attach", "one") as seat:
        seat.until("I ask.\n")
        seat.until(f"\n  │ > {stepped.folder}/below\n")
        for nth in range(3):
            (stepped.folder / "below" / f"go-0-{nth}").touch()
        seat.until("  │ Below\n  │ \\x1b[2Jit ends.\n  │   1 model call\n")
        seat.until("  ● delegate")  # the line that names the holder may come before it
        stepped.go(2, reply=1)
        seat.until("Done.\n  2 model calls\n")
        shown = seat.text
    later = stepped.work.terminal.process("attach", "one").out
    told = [line for line in later.splitlines() if line.startswith("  │ ")]
    assert told == [line for line in shown.splitlines() if line.startswith("  │ ")]
    assert "it ends" not in "".join(
        str(one) for one in stepped.work.terminal.process("attach", "one", "--json").lines[:-4]
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
def test_attached_script_reads_the_same_stream(
    stepped: SteppedSession, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_STORE", target)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(stepped.work.terminal.folder))
    stepped.says(["One ", "two."])
    stepped.go(1)
    with stepped.work.terminal.start(*stepped.words, "--json") as runs:
        heard = [read_until(runs, "item.updated")]
        with stepped.work.terminal.start("attach", "one", "--json") as watches:
            heard.append(read_until(watches, "item.updated"))
            assert stepped.recorded() == []
            assert (heard[1][-2]["type"], heard[1][-1]["item"]["delta"]) == ("item.started", "One ")
            assert "number" not in heard[1][-1]
            stepped.go(2)
            for stream, process in zip(heard, (runs, watches), strict=True):
                stream += read_until(process, "item.updated")
            stepped.go(3)
            for stream, process in zip(heard, (runs, watches), strict=True):
                stream += read_until(process, "session.waiting")
    assert (runs.returncode, watches.returncode) == (0, 0)
    streams = [shape(one) for one in heard]
    assert streams[0] == streams[1]
    assert [one["item"].get("text") for one in streams[0] if one["type"] == "item.completed"][-1] == "One two."


@pytest.mark.slow
def test_followed_log_shows_live_text_in_its_last_row(stepped: SteppedSession) -> None:
    stepped.begin(["One\x1b[2J\n", "two."])
    with stepped.work.open_terminal("show", "one", "--follow") as seat:
        seat.until("\nOne\\x1b[2J")
        stepped.go(2)
        seat.until("\nOne\\x1b[2J two.")
        assert stepped.recorded() == []
        stepped.go(3)
        seat.until("it waits for")
        assert seat.text.count("two.") == 1
        assert not seat.text.splitlines()[-1].startswith("One")


@pytest.mark.slow
def test_session_runs_without_a_folder_for_live_text(stepped: SteppedSession) -> None:
    stepped.work("ls")
    place = stepped.work.terminal.folder / "perdure.db.d"
    place.mkdir(exist_ok=True)
    (place / "live").write_text("a file where the folder should be")
    stepped.begin(["One ", "two."], first=3)
    said = stepped.work.terminal.process("attach", "one")
    assert (said.code, said.out.count("One two.\n  1 model call\n")) == (0, 1)
    assert stepped.recorded() == ["One two."]
