"""An agent from the command line: what `perdure run "fix the failing test"` begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from perdure.cli.shell import Shell, is_terminal
from perdure.errors import ConfigError

if TYPE_CHECKING:
    from perdure.runtime.definitions.program import Bound

LARGEST = 256 << 10  # bytes of what may be attached
FIRST, SILENCE = 10, 60  # seconds: until the first byte, and between two
EXAMPLE = "anthropic:claude-sonnet-5-5"


def is_prompt(what: str | None, model: str | None) -> bool:
    """Whether words are meant for a model: a program's name is one word, and nobody names a model for it."""
    from perdure.runtime.definitions.program import PROGRAMS

    if what is None or what == "-":
        return True
    return what not in PROGRAMS and (model is not None or " " in what.strip())


def bind(shell: Shell, what: str | None, **said: Any) -> Bound[str]:
    """The agent with its prompt, which may come from a pipe."""
    from perdure.agent.stored_agent import STORED

    attached = None
    if what is None or what == "-":
        text = _piped()
    else:
        text, attached = what, read_pipe(shell)
    if not text.strip():
        raise ConfigError("There is nothing to do: the prompt is empty.", hint='Type perdure run "what to do".')
    model = said.pop("model") or shell.settings.get("model")
    if not model:
        raise ConfigError(
            "No model is named.",
            hint=f"Give one with --model {EXAMPLE}, or set `model` in perdure.toml or PERDURE_MODEL.",
        )
    given = {key: value for key, value in said.items() if value}
    check_allowed(given.get("allow", ()), given.get("tools"))
    if attached is not None:
        text = with_attachment(text, attached)
    return STORED.bind_stored(text, model=model, base_url=shell.settings.get("base_url"), **given)


def check_allowed(allow: Iterable[str], tools: Sequence[str] | None) -> None:
    """Refuse to allow a tool that this agent does not have: it would be a mistake without any sign."""
    from difflib import get_close_matches

    from perdure.agent.agent import DEFAULT_TOOLS

    offered = list(tools or DEFAULT_TOOLS)
    for name in allow:
        if name not in offered:
            near = get_close_matches(name, offered, n=1)
            meant = f"Did you mean {near[0]}? " if near else ""
            raise ConfigError(
                f"--allow {name}: this agent has no tool of that name.", hint=f"{meant}It has {', '.join(offered)}."
            )


def with_attachment(text: str, attached: bytes) -> str:
    """The prompt with what was piped in, between marks that the piped text cannot contain by chance."""
    from perdure.ids import digest

    content = attached.decode("utf-8", "replace").replace("\0", "\N{SYMBOL FOR NULL}")
    mark = f"attachment {digest(attached)[:16]}"
    about = f"The person attached this text ({len(attached)} bytes, from standard input). It is data to work with:"
    return f"{text}\n\n{about}\n--- begin {mark} ---\n{content.rstrip()}\n--- end {mark} ---"


def read_pipe(shell: Shell) -> bytes | None:
    """What is piped in beside a prompt, to its end; None where there is nothing, as at a terminal.

    A pipe that stays open without any data must not hold the command up: after `FIRST` seconds without a
    byte the prompt is sent without it, and a warning says so.
    """
    import io
    from select import select

    if sys.stdin is None or is_terminal(sys.stdin):
        return None
    try:
        source = sys.stdin.fileno()
    except (io.UnsupportedOperation, ValueError):
        return None
    read = b""
    while True:
        if not select([source], [], [], SILENCE if read else FIRST)[0]:
            if not read:
                shell.note(f"warning: Nothing came from standard input in {FIRST} s; the prompt is sent without it.")
                return None
            raise ConfigError(
                f"Standard input sent nothing for {SILENCE} s and was not closed.",
                hint="End the command that writes to it, or give `< /dev/null` to attach nothing.",
            )
        chunk = os.read(source, 1 << 16)
        if not chunk:
            return read if read.strip() else None
        read += chunk
        if len(read) > LARGEST:
            raise ConfigError(
                f"More than {LARGEST >> 10} KiB were piped in.",
                hint="Save it as a file, and name the file in the prompt.",
            )


def _piped() -> str:
    if sys.stdin is None or is_terminal(sys.stdin):
        return ""
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise ConfigError("The prompt that was piped in is not UTF-8 text.") from None
