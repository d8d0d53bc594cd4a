"""Which commands only look. Such a command is `pure`: it may run again, and nobody is asked.

The judgement errs on the side of "may change something". A command that passes is not given to a shell: its words are
run as they stand here, so there is nothing that a shell could understand in another way. Where there is a sandbox, the
folder is read-only for it as well.
"""

from __future__ import annotations

import re
import shlex

READ_ONLY: tuple[str, ...] = (
    "basename", "cat", "cmp", "cut", "dirname", "du", "echo", "egrep", "fgrep", "find", "git blame", "git diff",
    "git log", "git ls-files", "git rev-parse", "git show", "git status", "grep", "head", "ls", "nl", "pwd", "readlink",
    "realpath", "rg", "sha256sum", "stat", "tail", "wc",
)  # fmt: skip

# Words of letters that mean nothing to a shell, or quoted so that they do not.
_PLAIN = re.compile(r"""(?:[\w./:=@%+,^~ \t-]|'[^'\n\r\0]*'|"[^"$`\\\n\r\0]*")*""", re.ASCII)

# What runs something, writes something, or never ends.
_REFUSED: dict[str, re.Pattern[str]] = {
    "find": re.compile(r"-(exec|ok|delete|fprint|fls)"),
    "rg": re.compile(r"--(pre|hostname-bin|search-zip|generate)|-[^-]*z"),
    "tail": re.compile(r"--(f|r)|-[^-]*[fF]"),
}

# Git takes any beginning of an option's name for it, so here the harmless ones are listed.
_GIT = re.compile(
    r"-[pnswbRMCz]|-n?\d+|-U\d+|-[SGL].+"
    r"|--(oneline|stat|shortstat|numstat|summary|graph|all|branch|short|long|porcelain|cached|staged|patch|no-patch"
    r"|name-only|name-status|reverse|follow|merges|no-merges|first-parent|decorate|abbrev-commit|no-color|no-renames"
    r"|no-ext-diff|no-textconv|check|ignored|others|exclude-standard|modified|deleted|show-toplevel|abbrev-ref"
    r"|is-inside-work-tree|verify|word-diff|minimal|patience|histogram|no-pager|show-stash|ahead-behind)"
    r"|--(since|until|after|before|author|committer|grep|max-count|skip|date|format|pretty|unified|color|decorate"
    r"|diff-filter|untracked-files|porcelain|abbrev)=.*"
)


def words(command: str) -> list[str] | None:
    """The words of a command in which a shell would find nothing but words; else None."""
    if not _PLAIN.fullmatch(command):
        return None
    found = shlex.split(command)
    return None if any(word.startswith("~") for word in found) else found


def is_read_only(command: str, prefixes: tuple[str, ...] = READ_ONLY) -> bool:
    """Whether a command only looks, as far as that can be told from its text and the declared prefixes."""
    found = words(command)
    if not found or not any(found[: len(prefix)] == prefix for prefix in map(str.split, prefixes)):
        return False
    program, rest = found[0], found[1:]
    if program == "git":
        return _git_only_looks(rest)
    refused = _REFUSED.get(program)
    return refused is None or not any(refused.match(word) for word in rest)


def _git_only_looks(rest: list[str]) -> bool:
    """Everything after the subcommand is a listed option, or no option. `%G` has git run a program that checks."""
    for word in rest[1:]:
        if word == "--":
            return True
        if "%G" in word or (word.startswith("-") and not _GIT.fullmatch(word)):
            return False
    return True
