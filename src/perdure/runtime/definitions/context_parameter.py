"""The parameter through which a tool, a probe or an undo gets its `Call`.

It is found by its annotation, under any name and at any place; `call` without an annotation is one too. A parameter
named `call` with another annotation is an ordinary argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

NAME = "call"


class ContextParameter:
    """The parameter of one function that gets the context, if there is one."""

    def __init__(self, function: Callable[..., Any], kind: type, name: str | None = NAME) -> None:
        """`name` counts where an annotation is missing or cannot be read; with None, only a readable one counts."""
        self._parameters = tuple(inspect.signature(function).parameters.values())
        hints = _hints(function)
        self.name = next((one.name for one in self._parameters if _is_context(one, hints, kind, name)), None)

    def choose_first_unless(self, arguments: Mapping[str, Any]) -> None:
        """Without an annotation, the first parameter of a probe is the context if the tool has no such argument."""
        if self.name is None and self._parameters and self._parameters[0].name not in arguments:
            self.name = self._parameters[0].name

    def give(self, context: Any, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and the named arguments of a call of the function."""
        if self.name is None:
            return (), arguments
        if self._parameters[0].name == self.name and self._parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY:
            return (context,), arguments
        return (), arguments | {self.name: context}


def _is_context(parameter: inspect.Parameter, hints: Mapping[str, Any], kind: type, name: str | None) -> bool:
    annotation = hints.get(parameter.name, parameter.annotation)
    if annotation is parameter.empty:
        return parameter.name == name
    if isinstance(annotation, str):  # its type is imported for the type checker only
        return name is not None and (parameter.name == name or annotation.rsplit(".", 1)[-1] == kind.__name__)
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return any(isinstance(one, type) and issubclass(one, kind) for one in (annotation, *get_args(annotation)))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations as types; those that cannot be read stay text."""
    whole = inspect.unwrap(function)
    hints: dict[str, Any] = {}
    for name, annotation in getattr(whole, "__annotations__", {}).items():
        one: Any = lambda: None  # noqa: E731 - it carries one annotation
        one.__annotations__ = {name: annotation}
        try:
            hints |= get_type_hints(one, getattr(whole, "__globals__", {}), include_extras=True)
        except Exception:  # an annotation may be anything
            hints[name] = annotation
    return hints
