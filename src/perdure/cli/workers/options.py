"""The options of workers, which `perdure worker` and `perdure serve` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from perdure.cli.shell import RenamedOption

F = TypeVar("F", bound=Callable[..., Any])
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _duration(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """A duration as people write it, such as `30s` or `1h`, in microseconds."""
    from perdure.runtime.definitions.durations import microseconds

    return None if value is None else microseconds(value)


def _size(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """A number of bytes as people write it, such as `512M` or `2G`."""
    if value is None:
        return None
    text = value.strip().lower().removesuffix("b").removesuffix("i")
    digits = text.rstrip("kmgt")
    unit = UNITS.get(text[len(digits) :])
    if unit is None or not digits.isdecimal() or not digits.isascii() or not 0 < int(digits) * unit < 2**62:
        raise click.BadParameter(f"{value!r} is not a size. Write 512M or 2G.")
    return int(digits) * unit


def _names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Names that are separated by commas."""
    if value is None:
        return None
    found = tuple(dict.fromkeys(word.strip() for word in value.split(",") if word.strip()))
    if not found:
        raise click.BadParameter("Name at least one queue.")
    return found


OPTIONS = [
    click.option("--queues", callback=_names, metavar="A,B", help="Only sessions of these queues (default: all)."),
    click.option(
        "--concurrency", "--at-once", "concurrency", type=click.IntRange(1, 1000), metavar="N", default=4,
        show_default=True, cls=RenamedOption, help="Run up to N sessions at a time.",
    ),
    click.option("--isolate", is_flag=True, help="Run each session in a process of its own."),
    click.option(
        "--drain", callback=_duration, metavar="DURATION", default="30s", show_default=True,
        help="After SIGTERM, give running sessions this long to finish or wait; then other workers continue them.",
    ),
    click.option(
        "--hang", callback=_duration, metavar="DURATION", default="30s", show_default=True,
        help="Act if one session blocks the others for so long; 0s: never.",
    ),
    click.option("--recycle-after", callback=_duration, metavar="DURATION", help="Drain and exit after this time."),
    click.option("--recycle-sessions", type=click.IntRange(1), metavar="N", help="The same after N sessions."),
    click.option("--recycle-memory", callback=_size, metavar="SIZE", help="The same when it uses SIZE of memory (2G)."),
    click.option("--code-version", metavar="V", help="The version of the code that it runs (default: a digest of it)."),
]  # fmt: skip


def worker_options(function: F) -> F:
    """Add the options of workers to a command."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def worker_words(options: Mapping[str, Any]) -> list[str]:
    """The same options as words of a command line, for a process that `perdure serve` starts."""
    words = ["--concurrency", str(options["concurrency"])]
    if options["queues"] is not None:
        words += ["--queues", ",".join(options["queues"])]
    if options["isolate"]:
        words += ["--isolate"]
    for name in ("drain", "hang", "recycle_after"):
        if options[name] is not None:
            words += [f"--{name.replace('_', '-')}", f"{options[name] / 1_000_000:.6f}s"]
    for name in ("recycle_sessions", "recycle_memory", "code_version"):
        if options[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    return words
