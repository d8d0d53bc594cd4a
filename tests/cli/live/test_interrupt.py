"""Escape and Ctrl-C at a real pseudo-terminal, and `perdure interrupt` and `cancel --now` from another process."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from perdure.testing.proxy import wait_until
from tests.cli.support import streaming_model
from tests.cli.support.agents import AgentFolder
from tests.cli.support.pseudo_terminal import PseudoTerminal

pytestmark = pytest.mark.slow
APP = streaming_model.__file__
STOPPED = "ada stopped the work here."


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, work: AgentFolder) -> list[str]:
    """The options that name the store; a test that takes it runs on both databases."""
    if request.param == "SQLite":
        return ["--store", str(work.terminal.folder / "perdure.db")]
    return ["--store", str(request.getfixturevalue("postgres_server").create_database())]


def open_agent(work: AgentFolder, store: list[str], agent: str) -> PseudoTerminal:
    words = ["run", agent, "prompt=begin", "--id", "one", "--repo", str(work.folder), "--app", str(APP), *store]
    return work.open_terminal(*words)


def events(work: AgentFolder, store: list[str], kind: str) -> list[dict[str, object]]:
    found = work("show", "one", "--json", "--last", "200", *store).json["events"]
    return [one["body"] | {"actor": one["actor"]} for one in found if one["kind"] == kind]


def continues(seat: PseudoTerminal) -> None:
    """The prompt is back, and the next message is answered."""
    seat.until(STOPPED)
    seat.until("\n> ", times=2)
    seat.type("continue\n")
    seat.until("I continue.")
    assert "Traceback" not in seat.text


def has_stopped(mark: Path) -> bool:
    """Whether no process writes to the file any more."""
    before = mark.stat().st_size
    time.sleep(0.2)
    return mark.stat().st_size == before


@pytest.mark.parametrize("key", ["\x1b", "\x03"], ids=["escape", "ctrl-c"])
def test_key_cuts_a_streamed_answer_and_the_prompt_is_back(work: AgentFolder, store: list[str], key: str) -> None:
    with open_agent(work, store, "streaming") as seat:
        seat.until("word-3")
        seat.type(key)
        continues(seat)
    lines = events(work, store, "message")
    assert [one["role"] for one in lines] == ["user", "assistant", "note", "user", "assistant"]
    assert (lines[1]["stop"], str(lines[1]["content"]).startswith("word-0 word-1 ")) == ("cut", True)
    [request] = events(work, store, "interrupt.requested")
    assert request["actor"] == "ada"


def test_escape_ends_a_command_that_ignores_sigterm_with_its_children(work: AgentFolder, store: list[str]) -> None:
    mark = work.folder / "mark"
    with open_agent(work, store, "commanding") as seat:
        wait_until(mark.exists, "the command has begun")
        seat.type("\x1b")
        continues(seat)
    assert has_stopped(mark)
    [effect] = work("effects", "--tool", "run_command", "--json", *store).lines
    assert effect["state"] == "acknowledged"
    assert "ada stopped it, and it may be partly done" in str(effect["result"])
    assert work("verify", *store).code == 0


@pytest.mark.parametrize("agent", ["delayed", "long_delayed"])
def test_escape_ends_the_wait_for_a_provider(work: AgentFolder, store: list[str], agent: str) -> None:
    with open_agent(work, store, agent) as seat:
        seat.until("next try in")
        seat.type("\x1b")
        continues(seat)


def test_cancel_now_from_another_process_ends_the_session(work: AgentFolder, store: list[str]) -> None:
    mark = work.folder / "mark"
    with open_agent(work, store, "commanding") as seat:
        wait_until(mark.exists, "the command has begun")
        said = work.terminal.process("cancel", "one", "--now", "--by", "grace", *store)
        assert (said.code, said.out) == (0, "Session one is cancelled.\n")
        assert seat.ended() == 1
    assert has_stopped(mark)
    assert work("verify", *store).code == 0


def test_interrupt_from_another_process_stops_the_session(work: AgentFolder, store: list[str]) -> None:
    with open_agent(work, store, "streaming") as seat:
        seat.until("word-3")
        said = work.terminal.process("interrupt", "one", "--by", "grace", *store)
        assert (said.code, said.out.splitlines()[0]) == (0, "Session one is waiting.")
        seat.until("grace stopped the work here.")
        seat.until("\n> ", times=2)
    again = work.terminal.process("interrupt", "one", *store)
    assert (again.code, len(events(work, store, "interrupt.requested"))) == (0, 1)
