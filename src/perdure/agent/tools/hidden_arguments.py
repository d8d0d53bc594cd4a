"""Arguments that are added to a call before it is planned; the model does not see them and cannot set them.

An effect whose probe compares before and after needs both in its intent. So the agent calls `PREPARE[tool](arguments,
known)` before it plans: `arguments` is what the model gave, `known` maps each path to the digest of what the agent has
read (`ToolResult.read`, the newest wins). It returns the complete arguments, or raises `NotDone` with a sentence for
the model: then nothing is planned. `HIDDEN[tool]` are the parameters to leave out of the schema; a value that the model
gives for one of them is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure.errors import ConfigError, NotDone
from perdure.runtime.definitions.tool import Tool

ReadDigests = Mapping[str, str | None]
Prepare = Callable[[dict[str, Any], ReadDigests], dict[str, Any]]

PREPARE: dict[str, Prepare] = {}
HIDDEN: dict[str, frozenset[str]] = {}


def prepares(tool: Tool[..., Any], *hidden: str) -> Callable[[Callable[..., dict[str, Any]]], Prepare]:
    """Declare the function that fills the hidden parameters of a tool: `(known, **given by the model) -> arguments`.

    The arguments that it returns override the model's, so it may also correct one of them.
    """

    def declare(function: Callable[..., dict[str, Any]]) -> Prepare:
        def prepare(arguments: dict[str, Any], known: ReadDigests) -> dict[str, Any]:
            given = {name: value for name, value in arguments.items() if name not in hidden}
            try:
                opened = tool.signature.unbind(given | {name: _filler(tool, name) for name in hidden})
            except ConfigError as error:
                raise NotDone(f"{tool.name}: {error.message}") from None
            for name in hidden:
                del opened[name]
            return opened | function(known, **opened)

        PREPARE[tool.name] = prepare
        HIDDEN[tool.name] = frozenset(hidden)
        return prepare

    return declare


def _filler(tool: Tool[..., Any], name: str) -> str:
    """Every hidden parameter is a string or None, so any string lets the rest be checked."""
    return f"{tool.name}.{name}"
