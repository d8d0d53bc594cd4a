"""`perdure run PROGRAM --each FILE`: one session for each line of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perdure.cli.program_arguments import parse_arguments
from perdure.cli.shell import Shell
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import count, safe
from perdure.errors import ConfigError
from perdure.runtime.definitions.program import Bound, Program

STDIN = "-"


class SessionLine(NamedTuple):
    """What one line starts."""

    bound: Bound[Any]
    id: str | None


def start_each(
    shell: Shell,
    program: Program[..., Any],
    arguments: Sequence[str],
    file: str,
    prefix: str | None,
    options: dict[str, Any],
) -> int:
    """Start a session for each line, and print their ids. Every line is checked before the first session starts."""
    shared = parse_arguments(program, arguments)
    with_id = "id" not in program.signature.json_schema().get("properties", {})
    lines = list(read_lines(program, file, shared, with_id=with_id))
    ids = [line.id or (f"{prefix}-{number}" if prefix else None) for number, line in enumerate(lines, 1)]
    if None in ids and any(ids):
        raise ConfigError("Some lines have an id, and others have none.", hint="Give each an id, or add --id PREFIX.")
    given = None if None in ids else [str(id) for id in ids]
    bounds = [line.bound for line in lines]
    started = run_with_runtime(shell, lambda runtime: runtime.start_many(bounds, ids=given, **options), create=True)
    for id in started:
        if shell.json:
            shell.echo_json({"type": "session.started", "session": {"id": id, "program": program.name}})
        else:
            shell.echo(safe(id))
    found = "" if given is None else ", or found by their ids"
    shell.note(f"{count(len(started), 'session')} started{found}. `{shell.suggest('worker', app=True)}` runs them.")
    return 0


def read_lines(
    program: Program[..., Any], file: str, shared: dict[str, Any], *, with_id: bool
) -> Iterator[SessionLine]:
    """The lines of a file, each an object with the arguments of one session and, if the program has none, its `id`."""
    for number, line in enumerate(_text_of(file).splitlines(), 1):
        if not line.strip():
            continue
        where = f"Line {number} of {'standard input' if file == STDIN else file}"
        try:
            values = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError) as error:
            raise ConfigError(
                f"{where} is not a JSON object: {error}.", hint="Write one object on each line."
            ) from None
        id = values.pop("id", None) if with_id else None
        if id is not None and (not isinstance(id, str) or not id):
            raise ConfigError(f"{where}: the id of a session is a text that is not empty.")
        try:
            yield SessionLine(Bound(program, program.signature.bind((), shared | values)), id)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error.message}", hint=error.hint) from None


def _text_of(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        return content.decode()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8: {error}.") from None
