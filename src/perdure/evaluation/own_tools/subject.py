"""What is examined: a tool of the user, or a program, with arguments that fit its types.

Arguments come from `--call "charge order=7"`, otherwise from the declared types: a text is its parameter's name, a
number is 1, a list has one item.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.errors import ConfigError
from perdure.runtime.definitions.program import PROGRAMS, Program
from perdure.runtime.definitions.signature import Signature
from perdure.runtime.definitions.tool import TOOLS, Tool

TOOL, PROGRAM = "tool", "program"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A tool or a program. `rule` is that of a tool; `reason` says why it cannot be examined."""

    name: str
    kind: str
    rule: str = ""
    arguments: dict[str, Any] = {}
    reason: str = ""
    safe_errors: list[str] = []


def find_subjects(calls: Sequence[str] = (), modules: Iterable[str] = ()) -> list[Subject]:
    """The tools and programs that the user's modules have declared. Undos are examined with their tools."""
    given = dict(_parse(one) for one in calls)
    tools = [one for one in TOOLS.values() if one.undoes is None and _is_users(one.function, modules)]
    programs = [one for one in PROGRAMS.values() if _is_users(one.function, modules)]
    known = {one.name for one in tools} | {one.name for one in programs}
    if unknown := sorted(given.keys() - known):
        raise ConfigError(
            f"{unknown[0]} is no tool and no program of the app.", hint=f"There are {', '.join(sorted(known))}."
        )
    found = [_of_tool(one, given) for one in tools] + [_of_program(one, given) for one in programs]
    if not found:
        raise ConfigError("The app declares no tool and no program.", hint="Name the module that declares them.")
    return found


def packages_of(subjects: Sequence[Subject]) -> list[str]:
    """The packages of the user's code, from the modules of its functions."""
    functions = [TOOLS[one.name].function if one.kind == TOOL else PROGRAMS[one.name].function for one in subjects]
    modules = {str(function.__module__) for function in functions}
    return sorted({one if one.startswith("perdure.") else one.partition(".")[0] for one in modules})


def _is_users(function: Any, modules: Iterable[str]) -> bool:
    module = str(getattr(function, "__module__", ""))
    wanted = tuple(modules)
    return module in wanted if wanted else not module.startswith("perdure.")


def _of_tool(tool: Tool[..., Any], given: Mapping[str, list[str]]) -> Subject:
    safe = [error.__name__ for error in tool.safe_errors if error.__name__ != "NotDone"]
    made = Subject(name=tool.name, kind=TOOL, rule=str(tool.replay), safe_errors=safe)
    try:
        _ = tool.rule
    except ConfigError as error:
        return msgspec.structs.replace(made, reason=error.message)
    return _with_arguments(made, tool.signature, given.get(tool.name))


def _of_program(program: Program[..., Any], given: Mapping[str, list[str]]) -> Subject:
    made = Subject(name=program.name, kind=PROGRAM)
    return _with_arguments(made, program.signature, given.get(program.name))


def _with_arguments(subject: Subject, signature: Signature, given: list[str] | None) -> Subject:
    schema = signature.json_schema()
    try:
        arguments = _given(schema, given) if given is not None else _fitting(signature, example(schema))
        signature.unbind(arguments)
    except (ConfigError, KeyError, RecursionError) as error:
        said = error.message if isinstance(error, ConfigError) else f"no value is known for {error}"
        if given is not None:
            raise ConfigError(f"The arguments of {subject.name} do not fit: {said}") from error
        hint = f'give its arguments with --call "{subject.name} name=value"'
        return msgspec.structs.replace(subject, reason=f"{said.rstrip('.')}; {hint}")
    return msgspec.structs.replace(subject, arguments=arguments)


def _parse(call: str) -> tuple[str, list[str]]:
    words = shlex.split(call)
    if not words:
        raise ConfigError("An empty --call names no tool.", hint='Type it as --call "charge order=7".')
    return words[0], words[1:]


def _given(schema: dict[str, Any], words: list[str]) -> dict[str, Any]:
    fields = _resolved(schema, schema).get("properties", {})
    values = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise ConfigError(f"{word!r} is not of the form name=value.")
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            value = text
        is_text = fields.get(name, {}).get("type") == "string"
        values[name] = text if is_text and not isinstance(value, str) else value
    return values


PLAIN = {"boolean": True, "null": None}
FORMATS = {
    "date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "time": "03:04:05", "duration": "PT1S",
    "uuid": "00000000-0000-4000-8000-000000000001", "decimal": "1", "byte": "AA==",
}  # fmt: skip


def example(schema: dict[str, Any], whole: dict[str, Any] | None = None, name: str = "text") -> Any:
    """A value that fits a JSON Schema; what has a default is left out."""
    whole = schema if whole is None else whole
    schema = _resolved(schema, whole)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return example(schema[word][0], whole, name)
    kind = schema.get("type")
    if kind == "string":
        return FORMATS.get(str(schema.get("format") or schema.get("contentEncoding")), name)
    if kind == "array":
        items = schema.get("prefixItems") or [schema.get("items") or {}]
        return [example(one, whole, name) for one in items]
    if kind == "object" or "properties" in schema:
        required = schema.get("required", [])
        return {field: example(schema["properties"][field], whole, field) for field in required}
    if kind in ("integer", "number"):
        return max(1, schema.get("minimum", 1))
    return PLAIN.get(str(kind), name)


def _fitting(signature: Signature, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with texts of another form where the schema does not name the form, as for a local time."""
    for name in [name for name, value in arguments.items() if isinstance(value, str)]:
        for text in (arguments[name], *FORMATS.values(), "2026-01-02T03:04:05"):
            tried = arguments | {name: text}
            try:
                signature.unbind(tried)
            except ConfigError as error:
                if f"$.{name}" in error.message:
                    continue
            arguments = tried
            break
    return arguments


def _resolved(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema
