"""What a reviewer saw at the keyboard: each test says what a person should have been given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from perdure.testing.proxy import wait_until
from tests.cli.agents import Work, calls
from tests.cli.terminal import PERDURE, Terminal

TOUCH = ("run_command", {"command": "touch b"})
BYTES = b"\xff\xfe"  # what a shell of another encoding gives


def raw(*arguments: bytes | str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([PERDURE, *arguments], stderr=subprocess.PIPE, timeout=60, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.slow
def test_what_was_typed_before_a_question_was_shown_is_no_answer_to_it(work: Work) -> None:
    begin = work.script(work.hold(), calls("May I?", TOUCH), "Done.")
    with work.sit(*begin) as seat:
        work.until_held(seat)
        seat.type("yes that was the right file")
        seat.until("yes that was the right file")
        work.held.unlink()
        seat.until("y/n/a/m > ")
        seat.type("\n")
        wait_until(lambda: bool(work("approvals", "--all", "--json").out), "there is an approval")
        seat.until("m more", times=2)  # it is asked again
    assert not (work.folder / "b").exists()


@pytest.mark.slow
def test_a_text_of_several_lines_that_is_pasted_is_one_message(work: Work) -> None:
    with work.sit(*work.script("First.", "Second.", "Third.")) as seat:
        seat.until("First.")
        seat.until("> ", times=2)
        seat.type("\x1b[200~one\ntwo\x1b[201~\n")
        seat.until("Second.")
        seat.type("\x04")
        seat.ended()
    said = [one["body"]["message"] for one in work("show", "one", "--last", "100", "--json").json["events"]
            if one["kind"] == "inbox.received"]  # fmt: skip
    assert said == ["one\ntwo"]


def test_a_prompt_without_its_quotes_is_wrong_use(work: Work) -> None:
    _, _, *options = work.script("Done.")
    said = work("run", "fix", "the", "failing", "test", *options)
    assert (said.code, "error: " in said.err) == (2, True)


def test_a_folder_that_is_not_there_is_wrong_use(work: Work) -> None:
    said = work(*work.script("Done."), "--repo", str(work.folder / "shpo"))
    assert (said.code, "shpo" in said.err) == (2, True)


@pytest.mark.slow
def test_a_worker_that_may_not_idle_ends_what_it_began(terminal: Terminal) -> None:
    terminal.run("desk_review", "r")
    assert terminal("fork", "r", "--at", "1", "--id", "f").code == 0
    said = terminal.process("worker", "f", "--idle", "0")
    assert "Traceback" not in said.err
    assert terminal("show", "f", "--json").json["session"]["status"] == "waiting"


@pytest.mark.slow
def test_a_worker_speaks_json(terminal: Terminal) -> None:
    terminal("run", "desk_talk", "--id", "t")
    assert all(isinstance(one, dict) for one in terminal.process("worker", "--idle", "0.1", "--json").lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("approve", BYTES, "--because", "x"), ("settle", BYTES, "--absent", "--because", "x"), ("answer", BYTES, "x"),
     ("undo", BYTES, "--because", "x"), ("ls", "--owner", BYTES), ("effects", "--tool", BYTES),
     ("facts", "--scope", BYTES)],
    ids=lambda words: words[0],
)  # fmt: skip
def test_bytes_that_are_no_text_are_a_sentence(words: tuple[bytes | str, ...], terminal: Terminal) -> None:
    terminal("run", "desk_talk", "--id", "t")
    said = raw(*words)
    assert said.returncode == 2
    assert said.stderr.startswith(b"error: ")


def test_a_doctor_obeys_no_control_codes_of_an_address(terminal: Terminal) -> None:
    assert "\x1b" not in terminal("doctor", "--store", "a\x1b[2Jb.db").out


@pytest.mark.slow
def test_a_closed_output_is_no_traceback(terminal: Terminal) -> None:
    terminal("run", "desk_talk", "--id", "t")
    said = raw("ls", preexec_fn=lambda: os.close(1))
    assert b"Traceback" not in said.stderr


@pytest.mark.slow
def test_an_error_of_the_system_names_what_it_was_about(terminal: Terminal, folder: Path) -> None:
    gone = folder / "gone"
    gone.mkdir()
    said = raw("ls", cwd=gone, preexec_fn=gone.rmdir)
    assert said.returncode == 2  # nothing is wrong with the store
    assert b"None" not in said.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["ls", "doctor"])
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_an_output_that_is_full_is_not_the_stores_trouble(command: str, unbuffered: str, terminal: Terminal) -> None:
    terminal("run", "desk_talk", "--id", "t")
    with open("/dev/full", "w") as full:
        said = raw(command, stdout=full, env=os.environ | {"PYTHONUNBUFFERED": unbuffered})
    assert b"None" not in said.stderr
    assert b"output cannot be written" in said.stderr
    assert b"store-unavailable" not in said.stderr
    assert (said.returncode, said.stderr.count(b"\n")) == (1, 2)  # and what is left in the buffer is not tried again


@pytest.mark.parametrize("line", ["store = 3", "[store]\na = 1", 'store = ["a", "b"]', "by = true"])
def test_a_setting_of_the_wrong_kind_is_wrong_use(
    line: str, terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERDURE_STORE")
    (folder / "perdure.toml").write_text(line)
    said = terminal("ls")
    assert (said.code, "perdure.toml" in said.err) == (2, True)


@pytest.mark.parametrize("limit", [("--turns", "-1"), ("--turns", "0"), ("--cost", "-1")], ids=" ".join)
def test_a_limit_that_allows_nothing_is_wrong_use(limit: tuple[str, str], work: Work) -> None:
    assert work(*work.script("Done."), "--once", *limit).code == 2
