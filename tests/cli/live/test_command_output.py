"""What a command prints, shown at a real terminal while it runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.testing.proxy import wait_until
from tests.cli.support.agents import AgentFolder, calls

WAIT = "while [ ! -e go ]; do sleep 0.05; done"
HOSTILE = r"printf 'start\n\033]0;owned\007\033[2Jred\033[31m 1%%\r 50%%\r 99%%\n\302\2335m\342\200\256back\000\n'"


@pytest.fixture
def begin(work: AgentFolder) -> Callable[[str], list[str]]:
    """What to type to run one command without a question."""
    return lambda command: [
        *work.script(calls("I run.", ("run_command", {"command": command})), "Done."),
        *("--allow", "run_command"),
    ]


@pytest.mark.slow
@pytest.mark.databases("sqlite", "postgres")
def test_output_is_shown_while_the_command_runs(
    work: AgentFolder, begin: Callable[[str], list[str]], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_STORE", target)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(work.terminal.folder))
    command = f"for i in 1 2 3 4 5 6 7; do echo line $i; done; {WAIT}; echo end"
    with work.open_terminal(*begin(command), width=100) as seat:
        seat.until("\n    line 7\n")
        shown = seat.until("· 1 s")
        assert re.search(r"\n    line 3\n    line 4\n    line 5\n    line 6\n    line 7\n\S running `for i in ", shown)
        assert "line 2\n" not in shown
        with work.open_terminal("attach", "one") as watcher:  # in another process
            watcher.until("\n    line 6\n    line 7\n")
            assert "running `for i in" in watcher.text
            with work.open_terminal("attach", "one", "--last", "0") as late:  # one that is not shown how it began
                late.until("\n    line 6\n    line 7\n")
                assert "running `for i in" in late.text
            (work.folder / "go").touch()
            for one in (seat, watcher):
                one.until("Done.\n")
                one.until("\n> ")
                lines = one.text.splitlines()
                place = lines.index("    exit 0")
                assert lines[place + 1].startswith("    … 3 lines before; `perdure effects e-")
                assert lines[place + 2 : place + 8] == [
                    *(f"    line {number}" for number in (4, 5, 6, 7)),
                    "    end",
                    "Done.",
                ]
                assert one.text.count("line 7") == 1


@pytest.mark.slow
def test_hostile_output_is_harmless_while_it_is_live(work: AgentFolder, begin: Callable[[str], list[str]]) -> None:
    with work.open_terminal(*begin(f"{HOSTILE}; {WAIT}"), width=60) as seat:
        seat.until("\n    start\n     99%\n    \\u202eback\n")
        (work.folder / "go").touch()
        seat.until("Done.")
    assert [code for code in ("\x1b]", "\x1b[2J", "\x07", "\u202e", "\x9b", "\x00") if code in seat.raw] == []


@pytest.mark.slow
def test_flood_of_output_is_throttled(work: AgentFolder, begin: Callable[[str], list[str]]) -> None:
    command = "yes '漢字 and a long line with many words in it that does not fit into the width' | head -c 30000000"
    with work.open_terminal(*begin(f"{command}; {WAIT}"), width=40) as seat:
        seat.until("漢字")
        seat.until("running")
        wait_until(lambda: _size(work) >= 30_000_000, "everything was printed")
        (work.folder / "go").touch()
        seat.until("Done.")
    assert len(seat.raw) < 200_000
    rows = [line for line in seat.text.splitlines() if line.startswith("    漢字")]
    assert rows


def _size(work: AgentFolder) -> int:
    found: list[Path] = list(work.terminal.folder.glob("perdure.db.d/commands/*/1/output"))
    return sum(path.stat().st_size for path in found)
