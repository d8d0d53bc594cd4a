"""An agent from the command line: what `perdure run "fix the failing test"` begins."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from perdure.cli.command import Shell, is_terminal
from perdure.errors import ConfigError

if TYPE_CHECKING:
    from perdure.runtime.program import Bound

EXAMPLE = "anthropic:claude-sonnet-5-5"


def is_prompt(what: str | None, model: str | None) -> bool:
    """Whether words are meant for a model: a program's name is one word, and nobody names a model for it."""
    from perdure.runtime.program import PROGRAMS

    if what is None or what == "-":
        return True
    return what not in PROGRAMS and (model is not None or " " in what.strip())


def bind(shell: Shell, what: str | None, **said: Any) -> Bound[str]:
    """The agent with its prompt, which may come from a pipe."""
    from perdure.agent.stored import STORED

    text = what if what is not None and what != "-" else _piped()
    if not text.strip():
        raise ConfigError("There is nothing to do: the prompt is empty.", hint='Type perdure run "what to do".')
    model = said.pop("model") or shell.settings.get("model")
    if not model:
        raise ConfigError(
            "No model is named.",
            hint=f"Give one with --model {EXAMPLE}, or set `model` in perdure.toml or PERDURE_MODEL.",
        )
    given = {key: value for key, value in said.items() if value}
    return STORED.bind_stored(text, model=model, base_url=shell.settings.get("base_url"), **given)


def _piped() -> str:
    if sys.stdin is None or is_terminal(sys.stdin):
        return ""
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise ConfigError("The prompt that was piped in is not UTF-8 text.") from None
