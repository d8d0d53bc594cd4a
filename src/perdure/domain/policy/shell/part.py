"""A part of a command: one program with its words, as far as they are known before the command runs."""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatchcase

import msgspec

UNKNOWN = "\0"  # stands in a word for text that is known only when the command runs
LONGEST = 200  # characters of a part that are shown
HARMLESS_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")
_ATTACHED = re.compile(r"[=:,@]")


class CommandPart(msgspec.Struct, frozen=True, kw_only=True):
    """One program that a command runs.

    `written` is the program as it stands in the command, `program` its name without a folder; empty where it is known
    only when the command runs. `variables` are assigned for this program alone. `fed_by` are the programs whose output
    it reads, or which make some of its words. `writes` are the paths that it writes, as far as that is known, and
    `redirected` those of redirections. `globs` are words that the shell may expand to names of files.
    """

    text: str
    program: str
    written: str
    words: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    fed_by: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    redirected: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()

    def mentions(self) -> tuple[str, ...]:
        """Every text of the part that may be a path: its words, what is attached to an option, redirections."""
        found = [self.written, *self.writes, *self.reads]
        for word in self.words:
            found.append(word)
            if word.startswith("-") and "=" not in word and (at := _path_start(word)) > 0:
                found.append(word[at:])
            if not _SCHEME.match(word):
                found.extend(one for one in _ATTACHED.split(word)[1:] if one)
        return tuple(dict.fromkeys(normal(one) for one in found))

    def paths(self) -> tuple[str, ...]:
        """The words and redirections that are taken for paths by `is_inside`. What a program searches for is not."""
        skipped = self._pattern()
        words = [word for at, word in enumerate(self.words) if at != skipped]
        found = [*self.writes, *self.reads]
        for word in words:
            found.append(word[_path_start(word) :] if word.startswith("-") and _path_start(word) > 0 else word)
            found.extend(_ATTACHED.split(word)[1:])
        return tuple(found)

    def is_inside(self) -> bool:
        """Whether each path that the part names lies in the folder where the command runs, judged by its text."""
        globs = (*self.globs, *self.writes, *self.reads)
        return all(map(is_inside, self.paths())) and not any(map(_finds_above, globs))

    def may_be_option(self, word: str) -> bool:
        """Whether a word may be an option: text that is not known, or a glob that finds a file such as `--output=x`."""
        return word.startswith(UNKNOWN) or (word in self.globs and word.startswith(("*", "?", "[", "-")))

    def _pattern(self) -> int:
        """The index of the word that a search program looks for, or -1."""
        if self.program not in SEARCHES or any(re.match(r"-\w*[ef]|--(?:regexp|file|from)", w) for w in self.words):
            return -1
        return next((at for at, word in enumerate(self.words) if not word.startswith("-")), -1)


SEARCHES = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "jq"})


def normal(path: str) -> str:
    """A path without needless parts, judged by its text: links are not known here."""
    if "/" not in path:
        return path
    found = posixpath.normpath(path)
    return found[1:] if found.startswith("//") else found


def is_inside(path: str) -> bool:
    """Whether a word cannot name a path outside the folder. A word whose text is not known may name any."""
    if UNKNOWN in path or (path.startswith(("/", "~")) and path not in HARMLESS_FILES):
        return False
    return ".." not in path.split("/")


def _finds_above(glob: str) -> bool:
    """Whether a glob may find the folder above: `.*` and `.?` find `..` in some shells."""
    return any(one.startswith(".") and fnmatchcase("..", one) for one in glob.split("/") if one != ".")


def _path_start(word: str) -> int:
    return min((at for sign in "/~" if (at := word.find(sign)) >= 0), default=-1)
