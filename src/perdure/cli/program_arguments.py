"""A program from the command line: its name and its arguments `key=value`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from perdure.agent.files.branch_merge import MERGE_PROGRAM
from perdure.agent.files.rewind.folder_rewind import rewind_folder
from perdure.errors import ConfigError, ProgramUnknown
from perdure.runtime.definitions.program import PROGRAMS, Bound, Program

OWN = {"agent", MERGE_PROGRAM, rewind_folder.name}  # started by a prompt, a merge and a rewind, not by their names
NAMED = 12  # programs that an error message lists


def find_program(name: str, *, elsewhere: bool = False) -> Program[..., Any]:
    """A program that is loaded, or with `elsewhere` one of a service. The error lists the loaded programs."""
    if name in PROGRAMS:
        return PROGRAMS[name]
    if elsewhere and name.isidentifier():
        return ProgramElsewhere(name)
    loaded = sorted(PROGRAMS.keys() - OWN)
    more = f" and {len(loaded) - NAMED} more" if len(loaded) > NAMED else ""
    names = f"Loaded programs: {', '.join(loaded[:NAMED])}{more}." if loaded else "No program is loaded."
    near = get_close_matches(name, loaded, n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    prompt = f"A prompt of one word needs -p: perdure run -p {shlex.quote(name)}"
    hint = f"{meant}Name the module that defines it with --app MODULE. {prompt}"
    raise ProgramUnknown(f"There is no program or agent {name!r}. {names}", hint=hint)


class ProgramElsewhere(Program[..., Any]):
    """A program that only the workers of a service have: they check its arguments."""

    def __init__(self, name: str) -> None:
        async def declared(_: Any) -> Any:
            raise ProgramUnknown(f"No program named {name} is loaded here.")

        super().__init__(declared, name)


def bind_program(program: Program[..., Any], given: Sequence[str]) -> Bound[Any]:
    """The program with its arguments, validated."""
    values = parse_arguments(program, given)
    if isinstance(program, ProgramElsewhere):
        return Bound(program, values)
    try:
        return Bound(program, program.signature.bind((), values))
    except ConfigError as error:
        raise ConfigError(error.message, hint=f"Type `{_usage(program)}`.") from None


def parse_arguments(program: Program[..., Any], given: Sequence[str]) -> dict[str, Any]:
    """The arguments `key=value` by name."""
    schemas = program.signature.json_schema().get("properties", {})
    values: dict[str, Any] = {}
    for one in given:
        key, equals, text = one.partition("=")
        if not equals or not key:
            raise ConfigError(f"{one!r} is not of the form key=value.", hint=f"Type `{_usage(program)}`.")
        if key in values:
            raise ConfigError(f"{key} is given twice.", hint="Give each argument once.")
        value = parse_value(text)
        is_text = schemas.get(key, {}).get("type") == "string"
        values[key] = text if is_text and not isinstance(value, str) else value
    return values


def _usage(program: Program[..., Any]) -> str:
    names = program.signature.json_schema().get("properties", {})
    return " ".join(["perdure", "run", program.name, *(f"{name}=VALUE" for name in names)])


def parse_value(text: str) -> Any:
    """The value of a JSON text; any other text as it is."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
