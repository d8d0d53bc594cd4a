"""Suspicious places in the source of a program: what often differs between two runs.

A hint is no finding: a clock may only be used for a log line, and a set may have one member. Hints say where to look
when a run differs, and name what a sweep within one second cannot see, such as today's date.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CALLS = {
    "time.time": "the time", "time.time_ns": "the time", "datetime.now": "the time", "datetime.utcnow": "the time",
    "datetime.today": "the time", "date.today": "the date", "datetime.datetime.now": "the time",
    "datetime.date.today": "the date", "uuid.uuid4": "a random id", "uuid4": "a random id", "uuid.uuid1": "a random id",
    "os.urandom": "randomness", "os.listdir": "the order of a folder", "os.scandir": "the order of a folder",
    "asyncio.as_completed": "the order of finished tasks", "as_completed": "the order of finished tasks",
}  # fmt: skip
MODULES = {"random": "randomness", "secrets": "randomness"}
ADVICE = {
    "the time": "s.now()", "the date": "s.now()", "a random id": "s.uuid()", "randomness": "s.random()",
    "the order of a folder": "sorted()", "the order of finished tasks": "s.gather()", "the order of a set": "sorted()",
}  # fmt: skip


def hints(function: Callable[..., Any]) -> list[str]:
    """One sentence for each suspicious place; none if the source cannot be read."""
    try:
        lines, start = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return []
    file = Path(inspect.getsourcefile(function) or "").name
    nodes = list(_plain(tree.body[0]))
    sets = {one for node in nodes for one in _names_of_sets(node)}
    found = [(_line(node), what) for node in nodes for what in [_suspicious(node, sets)] if what]
    return [
        f"{file}:{start + line - 1} uses {what} in plain code; {ADVICE[what]} is the same in every run."
        for line, what in sorted(set(found))
    ]


def _line(node: Any) -> int:
    return int(getattr(node, "lineno", None) or node.iter.lineno)


def _plain(node: ast.AST) -> Iterator[Any]:
    """The nodes of the function itself: functions inside it may be steps."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
            yield from _plain(child)


def _suspicious(node: ast.AST, sets: set[str]) -> str | None:
    if isinstance(node, ast.Call):
        name = _name(node.func)
        return CALLS.get(name) or (MODULES.get(name.partition(".")[0]) if "." in name else None)
    if isinstance(node, (ast.For, ast.comprehension)) and _is_set(node.iter, sets):
        return "the order of a set"
    return None


def _names_of_sets(node: ast.AST) -> list[str]:
    if not isinstance(node, ast.Assign) or not _is_set(node.value, set()):
        return []
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def _is_set(node: ast.AST, sets: set[str]) -> bool:
    called = isinstance(node, ast.Call) and _name(node.func) in ("set", "frozenset")
    return called or isinstance(node, (ast.Set, ast.SetComp)) or (isinstance(node, ast.Name) and node.id in sets)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        outer = _name(node.value)
        return f"{outer}.{node.attr}" if outer else ""
    return ""
