"""What a program does with its session, as far as its source shows."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def may_call(function: Callable[..., Any], method: str) -> bool:
    """Whether a program may call a method of its session. False only if that is certain.

    It is certain if the source shows nothing but other methods: a session that is passed to another function, stored
    in a variable or hidden by a decorator may be used in any way.
    """
    if hasattr(function, "__wrapped__"):
        return True
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):  # there is no source, as in an interactive session
        return True
    defined = tree.body[0]
    if not isinstance(defined, ast.AsyncFunctionDef):
        return True
    arguments = [*defined.args.posonlyargs, *defined.args.args]
    uses = [node for node in ast.walk(defined) if isinstance(node, ast.Name) and node.id == arguments[0].arg]
    plain = {id(node.value): node.attr for node in ast.walk(defined) if isinstance(node, ast.Attribute)}
    return any(plain.get(id(use), method) == method for use in uses)
