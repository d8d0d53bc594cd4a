"""Patterns of commands: the program, and words that follow.

`git push --force` names a program, then words. A word has `*` and `?`, alternatives as `a|b`, or is an expression after
`re:`; `!--output` is a word that must not be there, `!re:...` an expression that no word may be. A `*` at the end
stands for any further words. `CLASSES` are names for expressions that many rules need.

A rule that asks or denies is *wide*: options are found anywhere, also in clusters (`-rf` is `-r -f`) and shortened, and
operands in their order with others between them. A rule that allows is *narrow*: each word stands where the pattern has
it, and the program is named without a folder, or lies in a folder of the system.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from perdure.domain.policy.patterns import is_literal, names
from perdure.domain.policy.shell.part import UNKNOWN, CommandPart, normal

PartPredicate = Callable[[CommandPart], bool]
Word = Callable[[str], bool]

SYSTEM = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin"})
EXPRESSION = "re:"
CLASSES = {
    "<base-folder>": (
        r"(?:/|/(?:\*|\.\*|\.\./?\*?|\?\*)"
        r"|/(?:bin|boot|dev|etc|home|lib\w*|media|mnt|opt|proc|root|run|sbin|srv|sys|usr|var)(?:/\*?)?"
        r"|/(?:Users|System|Library|Applications|Volumes|private)(?:/\*?)?"
        r"|/(?:boot|etc|home|usr|var|Users)/[^/]+(?:/\*?)?"
        r"|~[^/]*(?:/(?:\*|\.\*|\.\.)?)?|~/\.\w+/?|(?:\.\./?)+\*?|(?:.*/)?\.git(?:/\*?)?)"
    ),
    "<shared-branch>": r"(?:refs/heads/)?(?:main|master|trunk|develop|production|prod|stable|release[^:]*)",
}
LONGEST_CLUSTER = 3  # characters of an option such as -rf; a longer one is a word


class CommandPattern:
    """One pattern, read from its text."""

    def __init__(self, text: str) -> None:
        first, *rest = text.split()
        self.programs = first.split("|")
        self.bare = "/" not in first
        self.tail = rest[-1:] == ["*"]
        words = rest[:-1] if self.tail else rest
        refused = [one[1:] for one in words if one.startswith("!")]
        self.without = [one.split("|") for one in refused if not one.startswith(EXPRESSION)]
        self.refused = [_expression(one) for one in refused if one.startswith(EXPRESSION)]
        kept = [one for one in words if not one.startswith("!")]
        self.sequence = [_word(one) for one in kept]
        self.options = [one.split("|") for one in kept if one.startswith("-")]
        self.operands = [_word(one) for one in kept if not one.startswith("-")]

    def is_in(self, part: CommandPart) -> bool:
        """The wide match, for rules that ask or deny."""
        options, operands = _sorted(part.words)
        if not all(any(_has_option(options, one) for one in alternatives) for alternatives in self.options):
            return False
        if self._is_refused(part.words) or any(
            _has_option(options, one) or one in operands for alternatives in self.without for one in alternatives
        ):
            return False
        left = iter(operands)
        return all(any(matches(word) or matches(normal(word)) for word in left) for matches in self.operands)

    def _is_refused(self, words: tuple[str, ...]) -> bool:
        return any(one.fullmatch(word) for one in self.refused for word in words)

    def _is_bare(self, part: CommandPart) -> bool:
        folder, slash, _ = part.written.rpartition("/")
        return self.bare and (not slash or folder in SYSTEM)

    def covers(self, part: CommandPart) -> bool:
        """The narrow match, for rules that allow, and for exceptions."""
        if not (part.written in self.programs or self._is_bare(part)):
            return False
        words = part.words
        if len(words) < len(self.sequence) or (len(words) > len(self.sequence) and not self.tail):
            return False
        if not all(
            UNKNOWN not in word and not part.may_be_option(word) and matches(word)
            for matches, word in zip(self.sequence, words, strict=False)
        ):
            return False
        if self._is_refused(words):
            return False
        rest = words[len(self.sequence) :]
        return not (self.without or self.refused) or not (
            any(map(part.may_be_option, rest))
            or any(_has_option(words, one) or one in words for alternatives in self.without for one in alternatives)
        )


def commands(texts: Iterable[str], *, each: bool) -> PartPredicate:
    """Whether a part matches one of several patterns, found by its program."""
    known: dict[str, list[CommandPattern]] = {}
    others: list[tuple[Word, CommandPattern]] = []
    for pattern in map(CommandPattern, texts):
        for program in pattern.programs:
            if is_literal(program):
                known.setdefault(program.rsplit("/", 1)[-1], []).append(pattern)
            else:
                others.append((names([program]), pattern))

    def holds(part: CommandPart) -> bool:
        if not part.program:
            return False
        found = known.get(part.program, [])
        if others:
            found = [*found, *(pattern for matches, pattern in others if matches(part.program))]
        return any(one.covers(part) if each else one.is_in(part) for one in found)

    return holds


def problem_of(text: str) -> str:
    """Why a text is no pattern; empty if it is one."""
    words = text.split()
    if not words or words[0].startswith(("-", "!", EXPRESSION)):
        return "a pattern begins with the name of a program"
    for word in (one.removeprefix("!") for one in words[1:]):
        if word.startswith(EXPRESSION):
            try:
                _expression(word)
            except re.error as error:
                return f"the expression {word} cannot be read: {error}"
        elif word.startswith("-") and any(not one.startswith("-") for one in word.split("|")):
            return f"the alternatives {word} are not all options"
    return ""


def _word(text: str) -> Word:
    if text.startswith(EXPRESSION) or text in CLASSES:
        compiled = _expression(text)
        return lambda word: compiled.fullmatch(word) is not None
    return names(text.split("|"))


def _expression(text: str) -> re.Pattern[str]:
    for name, expression in CLASSES.items():
        text = text.replace(name, expression)
    return re.compile(text.removeprefix(EXPRESSION), re.DOTALL)


def _sorted(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The options and the operands of a part. After `--` there are no options."""
    end = words.index("--") if "--" in words else len(words)
    options = [word for word in words[:end] if word.startswith("-") and word != "-"]
    operands = [word for word in words[:end] if not word.startswith("-") or word == "-"]
    return options, [*operands, *words[end + 1 :]]


def _has_option(words: Iterable[str], option: str) -> bool:
    """Whether an option is there: as it is, with a value, shortened, or in a cluster of characters."""
    if option.startswith("--"):
        return any(
            (name := word.split("=", 1)[0]) == option or (len(name) > 2 and option.startswith(name))
            for word in words
            if word.startswith("--")
        )
    if not option.startswith("-"):
        return False
    found = [word for word in words if word.startswith("-") and not word.startswith("--")]
    if option in found or any(word.startswith(f"{option}=") for word in found):
        return True
    characters = set("".join(word[1:] for word in found))
    return len(option) <= LONGEST_CLUSTER + 1 and set(option[1:]) <= characters
