"""Completion with the Tab key: commands that start with a slash, and files to attach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

MOST = 50  # candidates
LOOKED_AT = 5000  # entries of a folder


def complete_word(before: str, commands: Iterable[str], folder: Path) -> list[str]:
    """The words that can replace the last word of a text."""
    word = before[max(before.rfind(one) for one in " \n\t") + 1 :]
    if word.startswith("/") and word == before:
        return [one for one in commands if one.startswith(word)]
    return sorted(islice(_files(word[1:], folder), MOST)) if word.startswith("@") else []


def _files(typed: str, folder: Path) -> Iterator[str]:
    """The files and folders whose path starts like this. Hidden ones only after a dot."""
    above, slash, name = typed.rpartition("/")
    with suppress(OSError, RuntimeError, ValueError):  # no such folder, or no such user
        for one in islice((folder / Path(above + slash).expanduser()).iterdir(), LOOKED_AT):
            if one.name.startswith(name) and (name.startswith(".") or not one.name.startswith(".")):
                path = f"{above}{slash}{one.name}" + ("/" if one.is_dir() else "")
                if path.isprintable() and " " not in path:
                    yield f"@{path}"
