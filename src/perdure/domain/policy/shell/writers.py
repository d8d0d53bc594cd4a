"""The paths that a known program writes, by its words."""

from __future__ import annotations

import re
from collections.abc import Sequence

EVERY = frozenset(
    {"rm", "rmdir", "touch", "mkdir", "truncate", "tee", "shred", "unlink", "mkfifo", "mv", "srm", "wipefs"}
)
LAST = frozenset({"cp", "ln", "install", "rsync", "scp", "dd"})
AFTER_FIRST = frozenset({"chmod", "chown", "chgrp", "chattr", "setfacl"})
IN_PLACE = re.compile(r"-[a-zA-Z]*i.*|--in-place.*")
OUTPUT = re.compile(r"(?:-o|-O|--output|--output-document|--output-file|--target-directory|-P|--directory-prefix)")


def written_by(program: str, words: Sequence[str]) -> tuple[str, ...]:
    """What a program writes. Empty if it writes nothing, or if that is not known here."""
    operands = [word for word in words if not word.startswith("-")]
    if program in EVERY:
        return tuple(operands)
    if program in AFTER_FIRST:
        return tuple(operands[1:])
    found = _outputs(words) if program in ("cp", "install", "ln", "mv", "curl", "wget", "sort", "gcc") else []
    if program in LAST:
        found += [word[3:] for word in words if word.startswith("of=")] if program == "dd" else operands[-1:]
    elif program in ("sed", "perl", "ruby") and any(IN_PLACE.fullmatch(word) for word in words):
        found += operands
    return tuple(found)


def _outputs(words: Sequence[str]) -> list[str]:
    """The values of options that name what is written."""
    found = [words[at + 1] for at, word in enumerate(words[:-1]) if OUTPUT.fullmatch(word) or word == "-t"]
    return found + [word.split("=", 1)[1] for word in words if "=" in word and OUTPUT.match(word)]
