"""A provider that asks for patience: what a person sees meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support.agents import AgentFolder

APP = str(Path(__file__).parents[1] / "support" / "busy_model.py")


@pytest.fixture
def begin(work: AgentFolder, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("PERDURE_APP", APP)
    return ["run", "busy_agent", f"prompt={work.folder}", "--id", "one"]


@pytest.mark.slow
@pytest.mark.parametrize(("delay", "counts"), [("25", ("25 s", "24 s")), ("3000", ("50 min 0 s", "49 min 59 s"))])
def test_delay_is_counted_down_here_and_elsewhere(
    work: AgentFolder, begin: list[str], delay: str, counts: tuple[str, str]
) -> None:
    """A short delay is spent by the process that runs the session, a long one as a durable wait."""
    (work.folder / "busy").write_text(delay)
    with work.open_terminal(*begin) as seat:
        seat.until("the provider asks for patience: next try in ")
        seat.until(f"next try in {counts[1]} (2 of 6)")
        with work.open_terminal("attach", "one") as watcher:
            watcher.until("the provider asks for patience: next try in ")
            watcher.until("(2 of 6)")
            assert "thinking" not in watcher.text
        assert seat.text.count("patience") == 1


def test_delay_is_noted_once_on_standard_error(work: AgentFolder, begin: list[str]) -> None:
    (work.folder / "busy").write_text("0")
    ended = work.terminal.process(*begin, "--verbose")
    assert (ended.code, ended.out.strip()) == (0, "Here I am.")
    notes = [line for line in ended.err.splitlines() if line.startswith("The rate limit")]
    assert notes == ["The rate limit of busy is \\x1b[31mreached: next try in 0 s (2 of 6)"]
    assert "a model call failed: The rate limit of busy is" in ended.err


def test_delay_is_part_of_the_stream(work: AgentFolder, begin: list[str]) -> None:
    (work.folder / "busy").write_text("0")
    stream = work.terminal.process(*begin, "--json").lines
    (found,) = [one for one in stream if one["type"] == "model.waiting"]
    assert (found["attempt"], found["most"], found["requested"]) == (2, 6, True)
    assert found["due_at"] > 0
    assert found["why"].startswith("The rate limit")
