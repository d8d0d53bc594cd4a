"""An agent from the command line: what `perdure run "fix the failing test"` starts.

A prompt has several words, or is given with `-p`. One word is the name of a program or of an agent, so a mistyped name
does not start a model call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from perdure.agent.agent import DEFAULT_TOOLS, Agent
from perdure.agent.stored_agent import STORED
from perdure.cli.attachments import Message, attach_files, compose_message, read_text
from perdure.cli.shell import Shell
from perdure.errors import ConfigError
from perdure.runtime.definitions.program import PROGRAMS, Bound

EXAMPLE = "anthropic:claude-sonnet-5-5"


def is_prompt(what: str | None) -> bool:
    """Whether a text is a prompt, and not the name of a program."""
    return what is None or what == "-" or (what not in PROGRAMS and (not what.strip() or len(what.split()) > 1))


def named_agent(what: str | None) -> Agent | None:
    """The agent of the user's code that has this name."""
    found = PROGRAMS.get(what or "")
    return found if isinstance(found, Agent) and found is not STORED else None


def bind_agent(shell: Shell, agent: Agent | None, what: str | None, folder: Path, **options: Any) -> Bound[str]:
    """An agent with its prompt. Without an agent it is that of the command line, whose settings are `options`."""
    given = {key: value for key, value in options.items() if value}
    if agent is not None:
        once = bool(given.pop("once", False))
        for name in given:
            raise ConfigError(
                f"--{name.removesuffix('s')} is not for agent {agent.name}: its code sets it.",
                hint="Leave the option out, or change the code.",
            )
        return agent.bind(compose_prompt(shell, what, folder), once)
    model = given.pop("model", None) or shell.settings.get("model")
    if not model:
        raise ConfigError(
            "No model is set.",
            hint=f"Set one with --model {EXAMPLE}, `model` in perdure.toml, or PERDURE_MODEL.",
        )
    check_allowed(given.get("allow", ()), given.get("tools"))
    text = compose_prompt(shell, what, folder)
    return STORED.bind_stored(text, model=model, base_url=shell.settings.get("base_url"), **given)


def compose_prompt(shell: Shell, what: str | None, folder: Path) -> Message:
    """The prompt with its attachments. Without a text, or with `-`, standard input is the prompt."""
    is_piped = what is None or what == "-"
    text = read_text() if is_piped else what or ""
    if not text.strip():
        raise ConfigError("The prompt is empty.", hint='Type perdure run "what to do".')
    return attach_files(text, folder, shell.note) if is_piped else compose_message(shell, text, folder)


def check_allowed(allow: Iterable[str], tools: Sequence[str] | None) -> None:
    """Refuse to allow a tool that this agent does not have, because the mistake would go unnoticed."""
    offered = list(tools or DEFAULT_TOOLS)
    for name in allow:
        if name not in offered:
            near = get_close_matches(name, offered, n=1)
            meant = f"Did you mean {near[0]}? " if near else ""
            raise ConfigError(
                f"--allow {name}: this agent has no such tool.", hint=f"{meant}Its tools are {', '.join(offered)}."
            )
