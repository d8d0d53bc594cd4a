"""What every command shares: `--store`, `--json`, `--app`, the settings, and output.

A command is a function of a `Shell` and its own options. It returns its exit code, or None for 0. It raises errors and
never catches one to print it.
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

from perdure.cli import PIPE_CLOSED, shared_options
from perdure.secrets.mask import mask

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from rich.console import RenderableType

UNBOUNDED = 10_000  # columns where the output is not a terminal: lines are not wrapped, so that they can be searched
# How a shell completes parameters, by their names: ids of a kind, files or folders.
COMPLETED = {"id": "session", "session": "session", "effect": "effect", "file": "file", "repo": "dir", "store": "file"}
COMPLETED_IN = {
    "answer": {"wait": "question"},
    "approvals": {"id": "approval"},
    "approve": {"id": "vote"},
    "brief": {"to": "file"},
    "deny": {"id": "vote"},
    "export": {"to": "file"},
}
F = TypeVar("F", bound=Callable[..., Any])


class Shell:
    """The context of a command: the store, the settings, the user, and the output."""

    run_inside: Callable[[Callable[[Any], Any]], Any] | None = None  # of a command that is typed at a conversation

    def __init__(self, store: str | None, json: bool, app: Sequence[str] = (), by: str | None = None) -> None:
        from perdure.config import mistyped_names

        self.store_option = store
        self.json = json
        self.app = tuple(app)
        self._by = by
        if wrong := mistyped_names():
            names = ", ".join(f"{name} (did you mean {meant}?)" for name, meant in wrong)
            self.note(f"warning: Unknown settings in the environment: {names}.")

    @cached_property
    def settings(self) -> dict[str, str]:
        """The settings. They are read when first needed: a command that needs no setting does not ask for trust."""
        from perdure.config import read_settings

        def trusts(path: Path, text: str) -> None:
            from perdure.cli.prompts.trust_prompt import require_trust

            require_trust(self, path, text)

        found = read_settings(trusts=trusts)
        for name, text in found.items():
            _check(f"The setting `{name}`", text)
        return found

    @cached_property
    def store(self) -> str | None:
        return self.store_option if self.store_option is not None else self.settings.get("store")

    @property
    def by(self) -> str:
        """The name to record: `--by`, the setting, or the current user."""
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
        """The columns of the terminal, if the output is one."""
        if is_terminal(sys.stdout) or "COLUMNS" in os.environ:
            from shutil import get_terminal_size

            return get_terminal_size().columns
        return UNBOUNDED

    def load(self) -> None:
        """Import the programs and tools that `--app` or the settings name."""
        import perdure.agent.stored_agent  # noqa: F401 - the agent of the command line is a program like any other
        from perdure.cli.app import load_apps, split_names

        load_apps(self.app or split_names(self.settings.get("app", "")))
        for name in {"environment", "readable", "secrets"} & self.settings.keys():  # they are read there
            os.environ[f"PERDURE_{name.upper()}"] = self.settings[name]

    def echo_rich(self, *parts: RenderableType) -> None:
        """Print rich text: in colour on a terminal that supports it, plain everywhere else."""
        from rich.console import Console

        width = None if is_terminal(sys.stdout) or "COLUMNS" in os.environ else UNBOUNDED
        console = Console(width=width, highlight=False, emoji=False)
        with _output(), console.capture() as output:
            for part in parts:
                console.print(part, soft_wrap=isinstance(part, str))
        _print(mask("\n".join(line.rstrip() for line in output.get().splitlines())), color=True)

    def echo(self, *lines: str) -> None:
        """Print plain lines, which may be styled with `click.style`. Faster than `echo_rich`."""
        coloured = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        for line in lines:
            _print(mask(line), color=coloured)

    def note(self, line: str) -> None:
        """Print a remark on standard error, beside the result."""
        if not self.json:
            with _output(sys.stderr):
                click.echo(mask(line), err=True)

    def echo_json(self, value: Any) -> None:
        """Print one JSON object on one line."""
        import msgspec

        _print(msgspec.json.encode(value).decode())

    def echo_bytes(self, chunks: Iterable[bytes]) -> None:
        """Write bytes to standard output, unchanged."""
        with _output():
            for chunk in chunks:
                click.echo(chunk, nl=False)

    @property
    def is_store_durable(self) -> bool:
        """Whether the store outlives this process: a store in memory does not."""
        return self.store != "memory:"

    def suggest(self, *words: str, app: bool = False) -> str:
        """A command line to type next, for the same store and, with `app`, the same code."""
        import shlex

        from perdure.config import without_password

        options: list[str] = []
        if self.store_option is not None:
            options += [
                "--store",
                without_password(self.store_option, mask="") if "://" in self.store_option else self.store_option,
            ]
        for one in self.app if app else ():
            options += ["--app", one]
        end = words.index("--") if "--" in words else len(words)  # what follows is no option
        return shlex.join(["perdure", *words[:end], *options, *words[end:]])


def login() -> str:
    """The name of the current user."""
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):  # the user of a container may have a number and no name
        return f"uid-{os.getuid()}"


def is_terminal(stream: IO[Any] | None) -> bool:
    """Whether a stream is a terminal. A stream that was closed before the process started is None."""
    return stream is not None and stream.isatty()


def _print(line: str, *, color: bool | None = None) -> None:
    with _output():
        click.echo(line, color=color)


@contextmanager
def _output(stream: IO[Any] | None = None) -> Iterator[None]:
    """Report that the output cannot be written, so that it is not treated as an error of the store.

    When the reader has closed its end of the pipe, as `head` does, the command exits silently.
    """
    try:
        yield
    except OSError as error:
        with open(os.devnull, "wb") as nowhere:  # the rest of the buffer would fail again at exit
            os.dup2(nowhere.fileno(), (stream or sys.stdout).fileno())
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(PIPE_CLOSED) from None
        from perdure.errors import PerdureError

        raise PerdureError(
            f"The output cannot be written: {error.strerror}.",
            hint="Redirect it to a disk with free space. The command itself has completed.",
        ) from None


def _check(kind: str, given: Any) -> None:
    """Refuse text that no database can store, such as bytes that are not UTF-8, before it is used."""
    for text in given if isinstance(given, tuple) else (given,):
        if isinstance(text, str) and not text.isprintable():
            from perdure.ids import check_text

            check_text(kind, text)


def by_option(function: F) -> F:
    """Add the option `--by` to a command whose user is recorded."""
    return click.option("--by", metavar="NAME", help="Name to record (default: the current user).")(function)


class RenamedOption(click.Option):
    """An option that still accepts its old names. The help shows only the first one."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None:
            return None
        names, text = record
        for old in self.opts[1:]:
            names = names.replace(f", {old}", "")
        return names, text


class CompletedText(click.types.StringParamType):
    """Text that a shell can complete: an id of some kind, or the name of a file. `words` are offered too."""

    def __init__(self, kind: str, words: Sequence[str] = ()) -> None:
        self.kind = kind
        self.words = tuple(words)

    def shell_complete(self, ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        if self.kind in ("file", "dir"):
            return [CompletionItem(incomplete, type=self.kind)]
        from perdure.cli.id_completion import complete_ids

        words = [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
        return words + complete_ids(self.kind, ctx, incomplete)


def completion_type(command: str, parameter: click.Parameter) -> CompletedText | None:
    """How a shell completes a parameter, by its name."""
    if not isinstance(parameter.type, click.types.StringParamType) or isinstance(parameter.type, CompletedText):
        return None
    name = parameter.opts[0].lstrip("-")
    if isinstance(parameter, click.Option) and name == "id":
        return None  # the id of something new
    kind = (COMPLETED | COMPLETED_IN.get(command, {})).get(name)
    return CompletedText(kind) if kind else None


def command(run: Callable[..., int | None]) -> click.Command:
    """Make a function a command, with the options that all commands share."""

    def invoke(
        store: str | None, json: bool, app: tuple[str, ...], verbose: bool, by: str | None = None, **options: Any
    ) -> int:
        from perdure.cli.log import report_telemetry, show_log
        from perdure.cli.remote.supported import check_supported

        inside = click.get_current_context().find_object(Shell)  # of a command that is typed at a conversation
        if inside is None:
            show_log(verbose=verbose, json=json)
            report_telemetry()
            check_supported(click.get_current_context(), store)
        given = {"store": store, "app": app, "by": by, **options}
        for one in made.params:
            _check(f"The argument {one.opts[0]}", given.get(one.name or ""))
        return run(inside or Shell(store, json, app, by), **options) or 0

    own: list[click.Parameter] = list(reversed(getattr(run, "__click_params__", [])))
    params = [*own, *shared_options()]
    for one in params:
        one.type = completion_type(run.__name__, one) or one.type
    made = click.Command(name=run.__name__.rstrip("_"), callback=invoke, params=params, help=run.__doc__)
    return made
