"""Commands that a person types at a conversation, such as `/diff`. They never reach the model.

Only the first word counts: `/diff` is a command, and `/etc/hosts is wrong` is text, because that word has another
slash. `//diff` is the text `/diff`, and `/` alone is `/help`. A command runs the command of the command line that does
the same, with the runtime of the conversation, and its output is shown above the prompt.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Coroutine
from difflib import get_close_matches
from typing import Any, TypeVar, cast

import click
from rich.console import RenderableType
from rich.text import Text

from perdure.cli.display.session_info import cost_lines, model_name
from perdure.cli.live.screen import Screen
from perdure.cli.shell import Shell
from perdure.cli.text.plain import count
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, PerdureError
from perdure.runtime.runtime import Runtime

T = TypeVar("T")
MOST = 200  # lines of output that are shown
COMMAND = re.compile(r"/(?P<name>[A-Za-z][\w-]*)(?:\s+(?P<rest>.*))?", re.DOTALL)
HELP = {
    "help": ("", "list these commands"),
    "status": ("", "show what it waits for, its effects and last events"),
    "plan": ("", "show the task list of the agent"),
    "diff": ("[--stat]", "show what the agent changed in its files"),
    "undo": ("EFFECT [REASON]", "undo an effect with the undo function of its tool"),
    "rewind": ("N [--here]", "branch from event N, or put the files back here"),
    "fork": ("[N]", "branch the session at event N, or at its end"),
    "model": ("[NAME]", "show the model, or choose another one"),
    "cost": ("", "show tokens and cost"),
    "approve": ("[REASON]", "approve the call that is asked about"),
    "quit": ("", "leave; a session that works is left when it rests"),
}
NAMES = tuple(f"/{name}" for name in HELP)


def parse(line: str) -> tuple[str, str] | None:
    """The name and the arguments of a command; None if the line is text."""
    if line.strip() == "/":
        return "help", ""
    found = COMMAND.fullmatch(line.strip())
    return None if found is None else (found["name"].lower(), (found["rest"] or "").strip())


def text_of(line: str) -> str:
    """The text to send: `//word` is `/word`."""
    return line[1:] if line.startswith("//") and parse(line[1:]) is not None else line


class SlashCommands:
    """The commands of one conversation."""

    def __init__(self, shell: Shell, runtime: Runtime, screen: Screen) -> None:
        self._shell = shell
        self._runtime = runtime
        self._screen = screen

    async def run(self, name: str, rest: str, found: SessionRecord, approval: str | None) -> bool:
        """Run a command other than `quit`, above the prompt. Returns False if there is none of this name.

        `approval` is the id of the approval that the person is asked about.
        """
        prompt, keys = self._screen.prompt, self._screen.keys
        self._screen.line(f"> /{name} {rest}".rstrip(), "bold")
        is_known = name in HELP
        try:
            for line in await self._output(name, rest, found, approval) if is_known else ():
                self._screen.line(line)
        except PerdureError as error:
            self._note(f"{error.message} {error.hint}".rstrip())
        if not is_known:
            near = get_close_matches(name, HELP, n=1)
            meant = f" Did you mean /{near[0]}?" if near else ""
            self._note(
                f"There is no command /{name}; nothing was sent.{meant} /help lists all; //{name} sends it as text."
            )
        if not self._screen.draws:
            self._screen.ask(None)  # so that the prompt is printed again
        self._screen.ask(prompt, keys=keys)
        return is_known

    def _note(self, text: str) -> None:
        self._screen.line(f"  {text}", "yellow")

    async def _output(self, name: str, rest: str, found: SessionRecord, approval: str | None) -> list[str | Text]:
        match name:
            case "help":
                return [f"  {f'/{one} {HELP[one][0]}'.strip():24}  {HELP[one][1]}" for one in HELP]
            case "cost":
                return [f"  {line}" for line in cost_lines(found)]
            case "model" if not rest:
                return [f"  The model is {model_name(found)}. /model NAME chooses another one."]
            case "model":
                await self._runtime.set_model(found.uid, rest, by=self._shell.by)
                return [f"  The model is {rest} from the next model call on."]
            case "approve" if approval is None:
                raise ConfigError(
                    "No approval is asked for at the moment.", hint="/status shows what the session waits for."
                )
        words = command_words(name, rest, found.id, approval or "")
        inside = CommandShell(self._shell, self._runtime, asyncio.get_running_loop())
        await asyncio.to_thread(run_command, inside, words)
        shown: list[str | Text] = [*inside.lines[:MOST]]
        if len(inside.lines) > MOST:
            whole = self._shell.suggest(*words)
            shown.append(f"  … {count(len(inside.lines) - MOST, 'more line')}; run `{whole}` for all")
        if name == "rewind" and words[-1] == "--plan":
            shown.append("  Nothing was changed. Add --yes to put these files back.")
        return shown


def command_words(name: str, rest: str, id: str, approval: str) -> list[str]:
    """The command line that does the same."""
    try:
        given = shlex.split(rest) if name != "approve" else []
    except ValueError as error:
        raise ConfigError(f"/{name} {rest}: {error}.") from None
    if {"--help", "-h", "--json"} & set(given):
        raise ConfigError(f"/{name} does not take --help or --json.", hint=f"`perdure {name} --help` explains it.")
    match name:
        case "status":
            return ["show", id, "--last", "10"]
        case "plan":
            return ["tasks", id]
        case "diff":
            return ["diff", id, *given]
        case "fork":
            return ["fork", id, *(["--at", *given] if given[:1] and given[0].isdecimal() else given)]
        case "rewind":
            return rewind_words(given, id)
        case "undo" if not given:
            raise ConfigError("/undo needs the id of an effect.", hint="/status lists the effects.")
        case "undo":
            return ["undo", given[0], "--because", " ".join(given[1:]) or "undone at the terminal"]
        case _:
            return ["approve", approval, "--because", rest or "approved at the terminal"]


def rewind_words(given: list[str], id: str) -> list[str]:
    """`rewind`; in place it needs `--yes`, and otherwise shows what would change, because nothing can be asked here."""
    if not given:
        raise ConfigError("/rewind needs the number of an event.", hint="/status lists the last events.")
    given = ["--to", *given] if given[0].isdecimal() else given
    if "--here" in given and not {"--yes", "--plan"} & set(given):
        given = [*given, "--plan"]
    return ["rewind", id, *given]


class CommandShell(Shell):
    """The shell of a command inside a conversation: the same store and runtime, and lines that are collected."""

    def __init__(self, shell: Shell, runtime: Runtime, loop: asyncio.AbstractEventLoop) -> None:
        self.lines: list[Text] = []
        super().__init__(shell.store_option, False, shell.app, shell.by)
        self.__dict__["settings"] = shell.settings  # they were read and trusted when the conversation began
        self._runtime = runtime
        self._loop = loop

    def run_inside(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Await `work` in the conversation, from the thread of the command."""
        awaited = cast("Coroutine[Any, Any, T]", work(self._runtime))
        return asyncio.run_coroutine_threadsafe(awaited, self._loop).result()

    def load(self) -> None:
        """The code was loaded when the conversation began."""

    def echo(self, *lines: str) -> None:
        self.lines += [Text.from_ansi(line) for one in lines for line in one.split("\n")]

    def note(self, line: str) -> None:
        self.echo(line)

    def echo_rich(self, *parts: RenderableType) -> None:
        self.echo(*(str(part) for part in parts))


def run_command(shell: CommandShell, words: list[str]) -> None:
    """Run a command of the command line with this shell."""
    from perdure.cli import perdure

    try:
        perdure.main(words, prog_name="perdure", standalone_mode=False, obj=shell)
    except click.ClickException as error:
        raise ConfigError(error.format_message()) from None
