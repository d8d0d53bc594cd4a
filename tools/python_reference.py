"""The page of public names: every signature, its meaning and an example, read from the code."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from typing import Any, get_args, get_overloads

import msgspec

import perdure
from examples import reference as examples
from perdure.runtime.part_method import PartMethod

WIDTH = 100
GROUPS: dict[str, tuple[str, ...]] = {
    "Write programs": ("program", "Session", "Program", "Bound"),
    "Declare tools": ("tool", "Tool", "Call", "Outcome", "Gate", "Secret", "Transaction"),
    "Run sessions": ("open", "connect", "run", "Runtime", "Worker", "instrument"),
    "Records": ("SessionView", "Effect", "Event", "Approval", "ApprovalDecision"),
    "Policies": ("Intent", "PolicyAnswer"),
    "Agents": ("Agent", "AgentResult", "Limits", "File", "MCPServer", "Model", "ToolResult"),
    "Streams of agents": (
        "StreamEvent", "TextDelta", "TextDiscarded", "MessageAdded", "ToolCallStarted", "ToolCallFinished",
        "ToolOutput", "ModelRetry", "ApprovalRequested", "QuestionOpened", "DoubtOpened", "SessionFinished",
        "SessionParked",
    ),
}  # fmt: skip
CONSTRUCTED = (
    "Agent",
    "File",
    "Gate",
    "MCPServer",
    "Limits",
    "Secret",
    "ToolResult",
    "Worker",
)  # classes that users call


def is_error(name: str) -> bool:
    found = getattr(perdure, name)
    return isinstance(found, type) and issubclass(found, BaseException)


def ungrouped() -> list[str]:
    """Public names that are in no group; errors have a table."""
    grouped = {name for names in GROUPS.values() for name in names} | {"__version__"}
    return [name for name in perdure.__all__ if name not in grouped and not is_error(name)]


def sections() -> Iterator[str]:
    """The parts of the page, as Markdown."""
    shared: list[Any] = [examples.post, examples.find_post, examples.remove_post, examples.publish, examples.compose]
    shared += [examples.greet, examples.publish_greeting, examples.Order, examples.take_order]
    yield "The examples use these definitions, and run in `tests/docs/test_reference_examples.py`:"
    yield _code("\n\n\n".join(inspect.getsource(getattr(one, "function", one)).rstrip() for one in shared))
    for title, names in GROUPS.items():
        yield f"## {title}"
        shown = None
        for name in names:
            yield f"### perdure.{name}"
            yield from _describe(name)
            if (found := examples.EXAMPLES[name]) is not shown:
                shown = found
                yield _code(_body(found))
    yield "## Errors"
    yield "[Errors](errors.md) describes them and their tree. All are caught as `perdure.PerdureError`:"
    yield _code(_body(examples.EXAMPLES["PerdureError"]))
    yield ", ".join(f"`{name}`" for name in perdure.__all__ if is_error(name)) + "."
    yield "`perdure.__version__` is the version of this package."


def _describe(name: str) -> Iterator[str]:
    found = getattr(perdure, name)
    if isinstance(found, type):
        yield inspect.getdoc(found) or ""
        first, *members = _stub(found, name)
        yield _code("\n".join([first, *members] if members else [f"{first} ..."]))
    elif callable(found) and hasattr(found, "__code__"):
        yield inspect.getdoc(found) or ""
        yield _code("\n".join(_signatures(found, name, "")))
    else:
        yield "One of " + ", ".join(f"`{_plain(one)}`" for one in get_args(found)) + "."


def _stub(found: type, name: str) -> Iterator[str]:
    """A class as a stub: what users may use of it."""
    yield f"class {name}:"
    fields = found.__struct_fields__ if issubclass(found, msgspec.Struct) else ()
    for field in fields:
        yield f"    {field}: {_annotation(found, field)}"
    if issubclass(found, str):
        yield from (f"    {one.name} = {one.value!r}" for one in found)  # type: ignore[attr-defined]
    if name in CONSTRUCTED and not fields:
        yield from _signatures(vars(found)["__init__"], "__init__", "    ")
    hidden: frozenset[str] = getattr(found, "_INTERNAL", frozenset())
    for kind in (one for one in found.__mro__ if one.__module__.partition(".")[0] == "perdure"):
        for member, value in vars(kind).items():
            overridden = vars(found).get(member, value) is not value
            if member.startswith("_") or member in fields or member in hidden or overridden:
                continue
            if isinstance(value, property | cached_property):
                get = value.fget if isinstance(value, property) else value.func
                yield f"    {member}: {_plain(inspect.signature(get).return_annotation)}"  # type: ignore[arg-type]
                continue
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            function = value.method if isinstance(value, PartMethod) else function
            if inspect.isfunction(function):
                if isinstance(value, classmethod):
                    yield "    @classmethod"
                summary = (inspect.getdoc(function) or "").partition("\n\n")[0]
                yield from _signatures(function, member, "    ", documented=bool(summary))
                if summary:
                    yield from textwrap.wrap(
                        f'"""{" ".join(summary.split())}"""', WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8
                    )


def _annotation(found: type, field: str) -> str:
    for kind in found.__mro__:
        if field in (declared := inspect.get_annotations(kind)):
            return _plain(declared[field])
    return "Any"


def _signatures(function: Any, name: str, indent: str, *, documented: bool = False) -> Iterator[str]:
    """A function as it is declared, with its overloads; `documented`: its docstring follows."""
    overloads = get_overloads(function)
    for one in overloads or [function]:
        if len(overloads) > 1:
            yield f"{indent}@overload"
        prefix = "async def" if inspect.iscoroutinefunction(one) else "def"
        signature = inspect.signature(one)
        parts, returns = list(_parameters(signature)), _plain(signature.return_annotation)
        end = ":" if documented and one is (overloads or [function])[-1] else ": ..."
        line = f"{indent}{prefix} {name}({', '.join(parts)}) -> {returns}{end}"
        if len(line) <= WIDTH:
            yield line
        else:
            yield f"{indent}{prefix} {name}("
            yield from (f"{indent}    {part}," for part in parts)
            yield f"{indent}) -> {returns}{end}"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    seen_star = False
    parameters = list(signature.parameters.values())
    for number, one in enumerate(parameters):
        if one.kind is one.KEYWORD_ONLY and not seen_star:
            yield "*"
            seen_star = True
        seen_star = seen_star or one.kind is one.VAR_POSITIONAL
        stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        typed = "" if one.annotation is one.empty else f": {_plain(one.annotation)}"
        default = "" if one.default is one.empty else (" = " if typed else "=") + _default(one.default)
        yield f"{stars}{one.name}{typed}{default}"
        last = number + 1 == len(parameters) or parameters[number + 1].kind is not one.POSITIONAL_ONLY
        if one.kind is one.POSITIONAL_ONLY and last:
            yield "/"


def _default(value: Any) -> str:
    shown = repr(value)
    if value is ... or callable(value) or len(shown) > 40:
        return "..."
    return shown


def _plain(annotation: Any) -> str:
    """An annotation as it is written."""
    if annotation is inspect.Signature.empty:
        return "Any"
    if isinstance(annotation, str):
        return annotation
    name = getattr(annotation, "__name__", None) if isinstance(annotation, type) else None
    return name or re.sub(r"\b(?:typing|perdure(?:\.\w+)*)\.", "", str(annotation))


def _body(function: Any) -> str:
    """The statements of an example."""
    lines = inspect.getsource(function).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("async def")) + 1
    return textwrap.dedent("\n".join(lines[start:])).rstrip()


def _code(text: str) -> str:
    return f"```python\n{text}\n```"
