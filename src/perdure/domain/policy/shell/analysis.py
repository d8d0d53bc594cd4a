"""The analysis of a command: all programs that it runs, and why a part of it cannot be judged.

A program that runs another one gives two parts: itself, and the other one. Both are judged. The text is all that is
looked at: no file, no variable and no clock, so that the same text always has the same parts.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from perdure.domain.policy.shell.codes import git, inner_of, interpreted, module_of
from perdure.domain.policy.shell.part import LONGEST, UNKNOWN, CommandPart
from perdure.domain.policy.shell.syntax import SimpleCommand, Syntax
from perdure.domain.policy.shell.wrappers import Inner, executed_by_find, unwrap
from perdure.domain.policy.shell.writers import written_by

LARGEST = 1 << 16  # characters of a command
MOST_PARTS = 1_000
MOST_SIGNS = 1_500  # operators and the like: the time to parse an unfinished command grows with their square
DEEPEST = 6  # commands inside the words of commands
REMEMBERED = 2_000

_SIGNS = re.compile(r"[|&;(){}<>$`\[\]\"']")
_GLOB = re.compile(r"[*?\[]")
_UNKNOWN_CODE = "${UNKNOWN}"


class Analysis(msgspec.Struct, frozen=True):
    """The parts of a command, and why some of it cannot be judged (empty if everything can)."""

    parts: tuple[CommandPart, ...]
    problems: tuple[str, ...]


@lru_cache(maxsize=REMEMBERED)
def analyse(text: str) -> Analysis:
    """The parts of a command. It is computed once for each text."""
    if len(text) > LARGEST or len(_SIGNS.findall(text)) > MOST_SIGNS:
        return Analysis((), ("it is too long",))
    found = _Parts()
    found.add_code(text, 0, certain=True)
    if not found.parts and not found.problems:
        found.add_problem("it runs no program")
    return Analysis(tuple(found.parts), tuple(found.problems))


class _Parts:
    """The parts and problems found so far."""

    def __init__(self) -> None:
        self.parts: list[CommandPart] = []
        self.problems: list[str] = []

    def add_problem(self, what: str) -> None:
        if what not in self.problems:
            self.problems.append(what)

    def add_code(self, code: str, depth: int, *, certain: bool, fed_by: tuple[str, ...] = ()) -> None:
        """The parts of a command. Without `certain` the text may be no command at all, and proves no problem."""
        if depth > DEEPEST:
            self.add_problem("it has commands inside commands, too deeply")
            return
        if UNKNOWN in code and certain:
            self.add_problem("a text that is run as a command is known only when the command runs")
        syntax = Syntax(code.replace(UNKNOWN, _UNKNOWN_CODE))
        if certain:
            for one in syntax.problems:
                self.add_problem(one)
        elif syntax.problems:
            return
        names = {id(command): _names(command) for command in syntax.commands}
        for command in syntax.commands:
            fed = (*fed_by, *(name for one in command.fed_by for name in names.get(id(one), ())))
            self._add(command, depth, certain=certain, fed=tuple(dict.fromkeys(fed)))

    def _add(self, command: SimpleCommand, depth: int, *, certain: bool, fed: tuple[str, ...]) -> None:
        if not command.words and not command.assigned and not command.writes:
            return
        words = command.words or [":"]
        given = command.given if command.given is not None else _printed(command)
        part = _part(command.text, words, fed)
        part = msgspec.structs.replace(
            part,
            variables=tuple(name for name, _ in command.assigned),
            writes=(*part.writes, *command.writes),
            redirected=tuple(command.writes),
            reads=tuple(command.reads),
            globs=tuple(command.globs),
        )
        self._judge(part, given, depth, certain=certain)

    def _judge(self, part: CommandPart, given: str | None, depth: int, *, certain: bool) -> None:
        """Take a part, and what it runs in turn."""
        if len(self.parts) >= MOST_PARTS:
            self.add_problem(f"it runs more than {MOST_PARTS} programs")
            return
        if certain and (problem := _problem_of(part)):
            self.add_problem(problem)
        if part.program == "git":
            self._git(part, depth, certain=certain)
            return
        inner = unwrap(part.program, part.words) or inner_of(part.program, part.words, given)
        if part.program in ("find", "fd", "fdfind"):
            inner = executed_by_find(part.program, part.words)
        if inner is None:
            self.parts.append(part)
        else:
            self._inner(part, inner, given, depth, certain=certain)
        if module := module_of(part.program, part.words):
            found = msgspec.structs.replace(_part(part.text, module, part.fed_by), globs=part.globs)
            self._judge(found, None, depth, certain=certain)
        for text in interpreted(part.program, part.words, given):
            self.add_code(text, depth + 1, certain=False, fed_by=part.fed_by)

    def _inner(self, part: CommandPart, inner: Inner, given: str | None, depth: int, *, certain: bool) -> None:
        variables = (*part.variables, *inner.variables)
        self.parts.append(msgspec.structs.replace(part, words=tuple(inner.own), variables=variables))
        if inner.problem and certain:
            self.add_problem(inner.problem)
        for words in inner.commands:
            found = msgspec.structs.replace(_part(part.text, words, part.fed_by), variables=variables, globs=part.globs)
            if depth < DEEPEST:
                self._judge(found, given, depth + 1, certain=certain)
            else:
                self.add_problem("it has commands inside commands, too deeply")
        for code in inner.codes:
            self.add_code(code, depth + 1, certain=certain, fed_by=part.fed_by)

    def _git(self, part: CommandPart, depth: int, *, certain: bool) -> None:
        """git: its verb stands first, and each option before the verb is a part of its own."""
        words, options, codes = git(part.words)
        if words or not options:
            self.parts.append(msgspec.structs.replace(part, words=tuple(words)))
        for option in options:
            self.parts.append(msgspec.structs.replace(part, words=tuple(option), writes=(), redirected=()))
        for code in codes:
            self.add_code(code, depth + 1, certain=certain)


def _part(text: str, words: list[str], fed_by: tuple[str, ...]) -> CommandPart:
    written = words[0]
    program = written.rsplit("/", 1)[-1]
    known = UNKNOWN not in written and _GLOB.search(written) is None and written.isascii() and program != ""
    return CommandPart(
        text=text if len(text) <= LONGEST else text[: LONGEST - 3] + "...",
        program=program if known else "",
        written=written,
        words=tuple(words[1:]),
        fed_by=tuple(dict.fromkeys(fed_by)),
        writes=written_by(program, words[1:]),
    )


def _problem_of(part: CommandPart) -> str:
    """Why the program of a part is not known."""
    if part.program or part.written == ":":
        return ""
    if not part.written.isascii():
        return "a program's name has signs that look like others"
    return "a program's name is known only when the command runs"


def _names(command: SimpleCommand) -> list[str]:
    """The program of a command, with those that it runs as a wrapper."""
    found: list[str] = []
    words: list[str] | None = command.words
    for _ in range(DEEPEST):
        if not words:
            break
        program = words[0].rsplit("/", 1)[-1]
        found.append(program)
        inner = unwrap(program, words[1:])
        words = inner.commands[0] if inner is not None and inner.commands else None
    return found


def _printed(command: SimpleCommand) -> str | None:
    """What a program reads from `echo TEXT |`, if it is known. A shell may run it."""
    if len(command.fed_by) != 1:
        return None
    source = command.fed_by[0]
    if source.words[:1] == ["cat"] and source.given is not None:
        return source.given
    if source.words[:1] not in (["echo"], ["printf"]):
        return None
    texts = [word for word in source.words[1:] if not re.fullmatch(r"-[neE]+|%s(\\n)?", word)]
    return " ".join(texts).replace("\\n", "\n")
