"""What every command shares: `--store`, `--json`, `--app`, the settings, and how it speaks.

A command is a function of a `Shell` and its own options. It returns its exit code, or nothing for 0, and raises what
goes wrong; it never catches an error to print it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli import PIPE_CLOSED

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from rich.console import RenderableType

UNBOUNDED = 10_000  # columns, where nobody looks at a terminal: a line is a line, and can be searched for
OTHER_IDS = ("approvals", "approve", "deny")  # commands whose ID is not a session's
F = TypeVar("F", bound=Callable[..., Any])


class Shell:
    """What a command is given: where the store is, what is set, who asks, and a mouth."""

    def __init__(self, store: str | None, json: bool, app: Sequence[str] = (), by: str | None = None) -> None:
        from perdure.config import mistyped_names

        self.store_option = store
        self.json = json
        self.app = tuple(app)
        self._by = by
        if wrong := mistyped_names():
            told = ", ".join(f"{name} (did you mean {meant}?)" for name, meant in wrong)
            self.note(f"warning: The environment sets what is no setting: {told}.")

    @cached_property
    def settings(self) -> dict[str, str]:
        """What is set. Read when it is first needed: a command that needs no setting asks for no trust."""
        from perdure.config import read_settings

        def trusts(path: Path, text: str) -> None:
            from perdure.cli.commands.trust import require

            require(self, path, text)

        found = read_settings(trusts=trusts)
        for name, text in found.items():
            _check(f"The setting `{name}`", text)
        return found

    @cached_property
    def store(self) -> str | None:
        return self.store_option if self.store_option is not None else self.settings.get("store")

    @property
    def by(self) -> str:
        """Who acts: `--by`, the setting, or whoever is logged in."""
        return self._by or self.settings.get("by") or login()

    @property
    def connections(self) -> int:
        from perdure.errors import ConfigError

        given = self.settings.get("connections", "8")
        if not given.isdecimal() or not 1 <= int(given) <= 1000:
            raise ConfigError(f"The setting `connections` is {given!r}.", hint="Set it to a number from 1 to 1000.")
        return int(given)

    @property
    def width(self) -> int:
        """The columns of the terminal, if anybody looks at one."""
        if is_terminal(sys.stdout) or "COLUMNS" in os.environ:
            from shutil import get_terminal_size

            return get_terminal_size().columns
        return UNBOUNDED

    def load(self) -> None:
        """Import the programs and tools that `--app` or the settings name."""
        import perdure.agent.stored_agent  # noqa: F401 - the agent of the command line is a program like any other
        from perdure.cli.app import load, named

        load(self.app or named(self.settings.get("app", "")))
        for name in {"environment", "readable"} & self.settings.keys():  # where the sandbox looks for them
            os.environ[f"PERDURE_{name.upper()}"] = self.settings[name]

    def echo_rich(self, *parts: RenderableType) -> None:
        """Print for people: in colour on a terminal that wants it, plain everywhere else."""
        from rich.console import Console

        width = None if is_terminal(sys.stdout) or "COLUMNS" in os.environ else UNBOUNDED
        console = Console(width=width, highlight=False, emoji=False)
        with _output(), console.capture() as said:
            for part in parts:
                console.print(part, soft_wrap=isinstance(part, str))
        _print("\n".join(line.rstrip() for line in said.get().splitlines()), color=True)

    def echo(self, *lines: str) -> None:
        """Print plain lines, which may be styled with `click.style`; quicker than `show`."""
        coloured = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        for line in lines:
            _print(line, color=coloured)

    def note(self, line: str) -> None:
        """Say something beside the result, on the standard error."""
        if not self.json:
            with _output(sys.stderr):
                click.echo(line, err=True)

    def echo_json(self, value: Any) -> None:
        """Print one JSON object on one line."""
        import msgspec

        _print(msgspec.json.encode(value).decode())

    def echo_bytes(self, chunks: Iterable[bytes]) -> None:
        """Write bytes to the standard output, unchanged."""
        with _output():
            for chunk in chunks:
                click.echo(chunk, nl=False)

    @property
    def is_store_durable(self) -> bool:
        """Whether another command can find what this one leaves: a store in memory ends with its process."""
        return self.store != "memory:"

    def suggest(self, *words: str, app: bool = False) -> str:
        """A command to type next, on the same store and with the same code."""
        import shlex

        from perdure.config import without_password

        line = ["perdure", *words]
        if self.store_option is not None:
            line += [
                "--store",
                without_password(self.store_option, mask="") if "://" in self.store_option else self.store_option,
            ]
        for one in self.app if app else ():
            line += ["--app", one]
        return shlex.join(line)


def login() -> str:
    """Who is logged in, by a name that can be voted with."""
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):  # a container's user may have a number and no name
        return f"uid-{os.getuid()}"


def is_terminal(stream: IO[Any] | None) -> bool:
    """Whether somebody looks at it; a stream that was closed before we began is None."""
    return stream is not None and stream.isatty()


def _print(line: str, *, color: bool | None = None) -> None:
    with _output():
        click.echo(line, color=color)


@contextmanager
def _output(stream: IO[Any] | None = None) -> Iterator[None]:
    """That the standard output cannot be written to is not the store's trouble, so it is said here.

    A reader that has closed its end of the pipe, such as `head`, ends the command without a word.
    """
    try:
        yield
    except OSError as error:
        with open(os.devnull, "wb") as nowhere:  # what is left in the buffer would fail once more at the end
            os.dup2(nowhere.fileno(), (stream or sys.stdout).fileno())
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(PIPE_CLOSED) from None
        from perdure.errors import PerdureError

        raise PerdureError(
            f"The standard output cannot be written to: {error.strerror}.",
            hint="Send it to where there is room. What the command did is done.",
        ) from None


def _check(kind: str, given: Any) -> None:
    """Refuse text that no database could hold, such as bytes that are not UTF-8, before anything is done with it."""
    for text in given if isinstance(given, tuple) else (given,):
        if isinstance(text, str) and not text.isprintable():
            from perdure.ids import check_text

            check_text(kind, text)


def by_option(function: F) -> F:
    """Give a command the option `--by`, because a person acts."""
    return click.option("--by", metavar="NAME", help="Who says so; by default whoever is logged in.")(function)


class SessionId(click.types.StringParamType):
    """Text that a shell completes with the ids of sessions."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from perdure.cli.commands.completion import ids

        return ids(ctx, param, incomplete)


def command(run: Callable[..., int | None]) -> click.Command:
    """Make a function a command, with the options that every command has."""

    def invoke(
        store: str | None, json: bool, app: tuple[str, ...], verbose: bool, by: str | None = None, **options: Any
    ) -> int:
        from perdure.cli.log import show_log

        show_log(verbose=verbose, json=json)
        given = {"store": store, "app": app, "by": by, **options}
        for one in made.params:
            _check(f"The argument {one.opts[0]}", given.get(one.name or ""))
        return run(Shell(store, json, app, by), **options) or 0

    own: list[click.Parameter] = list(reversed(getattr(run, "__click_params__", [])))
    for one in own:
        if isinstance(one, click.Argument) and one.name == "id" and run.__name__ not in OTHER_IDS:
            one.type = SessionId()
    shared: list[click.Parameter] = [
        click.Option(["--store"], metavar="ADDRESS", help="Where sessions are kept: a path, files:DIR, postgresql://…"),
        click.Option(["--json"], is_flag=True, help="Print JSON: one object, or one a line for a list."),
        click.Option(
            ["--app"], metavar="MODULE", multiple=True, help="Where programs and tools are: a module, or a .py file."
        ),
        click.Option(["--verbose"], is_flag=True, help="Write log messages to standard error."),
    ]
    made = click.Command(name=run.__name__.rstrip("_"), callback=invoke, params=[*own, *shared], help=run.__doc__)
    return made
