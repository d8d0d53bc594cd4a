"""The keyboard by itself: lines, pasted texts, and what was typed before a question."""

from __future__ import annotations

import io
import os
import pty
from collections.abc import Iterator

import pytest

import perdure
from perdure.cli.input.keyboard import MARK, UNMARK, Keyboard
from perdure.cli.live.conversation import Conversation
from perdure.cli.live.screen import make_screen
from perdure.cli.live.session_renderer import log_renderer
from perdure.cli.prompts.wait_prompt import WaitPrompt
from perdure.cli.shell import Shell
from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.terminal import Terminal

UP = "\x1b[A"


@perdure.program
async def keys_question(s: perdure.Session) -> str:
    return str(await s.ask("Merge now?"))


class Board:
    """A keyboard on a pseudo-terminal, whose reader is called by hand."""

    def __init__(self, *, plain: bool = False) -> None:
        self.ours, self.theirs = pty.openpty()
        self.heard: list[str | None] = []
        self.keys = Keyboard(self.theirs, io.StringIO(), self.heard.append, lambda: None, plain=plain)
        self.keys.enter_cbreak()

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())


@pytest.fixture(params=[False, True], ids=["drawn", "dumb"])
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    made = Board(plain=request.param)
    yield made
    os.close(made.ours)
    os.close(made.theirs)


@pytest.fixture
def drawn() -> Iterator[Board]:
    made = Board()
    yield made
    os.close(made.ours)
    os.close(made.theirs)


def test_entered_lines_arrive_before_a_question_but_not_an_unfinished_one(board: Board) -> None:
    board.type("look first\nyes that was")
    board.keys.stash_typed()
    assert (board.heard, board.keys.typed) == (["look first"], ("", ""))
    board.type("n\n")
    board.keys.stash_typed()
    assert board.heard == ["look first", "n"]


def test_stashed_line_comes_back_with_the_up_key(drawn: Board) -> None:
    drawn.type("yes that was")
    assert drawn.keys.stash_typed()
    drawn.type(UP + "\n")
    assert not drawn.keys.stash_typed()
    assert drawn.heard == ["yes that was"]


def test_paste_interrupted_by_a_question_is_not_its_answer(drawn: Board) -> None:
    drawn.type("\x1b[200~yes\nthat")
    assert drawn.keys.stash_typed()
    drawn.type(" was\x1b[201~\n")
    drawn.keys.stash_typed()
    assert drawn.heard == [""]


def test_pasted_text_keeps_its_lines(drawn: Board) -> None:
    drawn.type("a \x1b[200~one\r\x15\x1b[Atwo\tthree\x1b[201~ b\n")
    drawn.keys.stash_typed()
    assert drawn.heard == ["a one\n[Atwo\tthree b"]


def test_answer_key_needs_no_enter_and_ignores_one(drawn: Board) -> None:
    drawn.keys.answer_keys = lambda: "yn"
    for text in ("y\n", "n", "\n", "\n"):
        drawn.type(text)
        drawn.keys.stash_typed()
    assert drawn.heard == ["y", "n", ""]


def test_several_keys_at_the_same_moment_are_no_answer(drawn: Board) -> None:
    drawn.keys.answer_keys = lambda: "yn"
    drawn.type("yes, n\n")
    drawn.keys.stash_typed()
    assert drawn.heard == [""]


@pytest.mark.slow
@pytest.mark.parametrize("key", ["\x04", "\x03"], ids=["ctrl-d", "ctrl-c"])
def test_bracketed_paste_is_turned_on_and_off(key: str, work: AgentFolder) -> None:
    with work.open_terminal(*work.script("First.")) as seat:
        seat.until("First.")
        seat.until("> ", times=2)
        assert (seat.raw.count(MARK), seat.raw.count(UNMARK)) == (1, 0)
        seat.type(key)
        seat.ended()
    assert seat.raw.count(UNMARK) == 1


@pytest.mark.slow
def test_failed_session_restores_the_terminal(work: AgentFolder) -> None:
    with work.open_terminal(*work.script(work.hold(), "Done.")) as seat:
        work.until_held(seat)
        for name in ("perdure.db", "perdure.db-wal"):  # not what lies in its memory: that would be its death
            (work.terminal.folder / name).write_bytes(b"broken" * 1000)
        work.held.unlink()
        assert seat.ended() != 0
    assert (seat.raw.count(MARK), seat.raw.count(UNMARK)) == (1, 1)


@pytest.mark.slow
def test_key_pressed_before_a_question_is_open_is_no_answer(work: AgentFolder) -> None:
    touches = [("run_command", {"command": f"touch {name}"}) for name in "bc"]
    begin = work.script(work.hold(), calls("May I?", touches[0]), calls("And this?", touches[1]), "Done.")
    with work.open_terminal(*begin) as seat:
        work.until_held(seat)
        seat.type("y")
        seat.until(" y")
        work.held.unlink()
        seat.until("was put aside")
        seat.until("y/s/t/n/m > ")
        seat.type("yes please\n")  # pasted
        seat.until("y  approve this call", times=2)  # it is asked again
        seat.until("y/s/t/n/m > ", times=1)
        seat.type("y")
        seat.until("run_command: approved by ada")
        seat.until("y/s/t/n/m > ", times=2)
        seat.type("n")
        seat.until("reason, or Enter for none > ")
        seat.type("not this\n")
        seat.until("Done.")
    assert [(work.folder / name).exists() for name in "bc"] == [True, False]


async def test_line_entered_before_a_question_is_a_message(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_question, "reads_messages", True)
    async with perdure.open("memory:") as runtime:
        view = await runtime.run((await runtime.start(keys_question.bind(), id="k")).id)
        shell, screen = Shell("memory:", json=False), make_screen(io.StringIO())
        talk = Conversation(shell, runtime, view, log_renderer(screen, runtime.store, view.uid, view.cursor), screen)

        def typed() -> bool:
            talk._on_typed("yes")
            return True

        talk.prompt = WaitPrompt(shell, runtime, talk.source, screen, lambda: None, typed)
        await talk.check()
        what, heard = talk._queue.get_nowait()
        await talk._on_line(heard)
        said = [event.body["message"] async for event in runtime.events("k") if event.kind == "inbox.received"]
        assert (what, said, len((await runtime.get("k")).waits)) == ("line", ["yes"], 1)
