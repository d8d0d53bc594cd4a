"""The output of a running command: only its end is read, and nothing of it can reach a terminal as a control."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.agent.commands.live_output import CommandOutputReader, last_lines

KEY = "0123456789abcdef" * 4
EFFECT = "e-0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\ntwo\n", ["one", "two"]),
        ("one\n\n  \ntwo", ["one", "two"]),
        (" 10%\r 50%\r 90%", [" 90%"]),
        ("done\r\nnext\r\n", ["done", "next"]),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain \x9b5mC1", ["red plain C1"]),
        ("\x1b]0;a title without an end", []),
        ("\x1b[2J\x1b[H\x1b(B\x1b7top", ["top"]),
        ("a\x00\x07\x08b", ["ab"]),
        ("cut\x1b[3", ["cut"]),
        ("x" * 5000, ["x" * 1000]),
        ("", []),
    ],
)
def test_last_lines_are_plain(text: str, shown: list[str]) -> None:
    assert last_lines(text, 5) == shown


def test_only_the_last_lines_are_kept() -> None:
    assert last_lines("\n".join(map(str, range(100))), 3) == ["97", "98", "99"]


def test_end_of_a_huge_output_is_found_by_the_effect_id(folder: Path) -> None:
    place = folder / KEY / "2"
    place.mkdir(parents=True)
    reader = CommandOutputReader([folder / "missing", folder])
    assert reader.tail(EFFECT, 2, 5) == []
    with open(place / "output", "wb") as file:
        file.truncate(1 << 30)  # zeros that take no space
        file.seek(0, os.SEEK_END)
        file.write("ends\nwith ü".encode())
        file.flush()
        assert reader.tail(EFFECT, 2, 5) == ["with ü"]
        file.write(b"\nthis")
    assert reader.tail(EFFECT, 2, 1) == ["this"]
    assert reader.tail(EFFECT, 1, 5) == reader.tail("e-*", 2, 5) == reader.tail("e-../x", 2, 5) == []


def test_link_and_pipe_are_not_read(folder: Path) -> None:
    (folder / "secret").write_text("secret\n")
    for attempt in (1, 2):
        (folder / KEY / str(attempt)).mkdir(parents=True)
    (folder / KEY / "1" / "output").symlink_to(folder / "secret")
    os.mkfifo(folder / KEY / "2" / "output")
    reader = CommandOutputReader([folder])
    assert (reader.tail(EFFECT, 1, 5), reader.tail(EFFECT, 2, 5)) == ([], [])
