"""An agent from the command line: what `perdure run "fix the failing test"` starts."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from select import select
from typing import Any

from perdure.agent.agent import DEFAULT_TOOLS
from perdure.agent.stored_agent import STORED
from perdure.cli.shell import Shell, is_terminal
from perdure.errors import ConfigError
from perdure.ids import digest
from perdure.runtime.definitions.program import PROGRAMS, Bound

LARGEST = 256 << 10  # bytes of an attachment
FIRST, SILENCE = 10, 60  # seconds to wait: for the first byte, and between two reads
EXAMPLE = "anthropic:claude-sonnet-5-5"


def is_prompt(what: str | None, model: str | None) -> bool:
    """Whether a text is a prompt: the name of a program is one word, and is given without a model."""
    if what is None or what == "-":
        return True
    return what not in PROGRAMS and (model is not None or " " in what.strip())


def bind_agent(shell: Shell, what: str | None, **options: Any) -> Bound[str]:
    """The agent with its prompt, which may come from standard input."""
    attached = None
    if what is None or what == "-":
        text = _read_prompt()
    else:
        text, attached = what, read_pipe(shell)
    if not text.strip():
        raise ConfigError("The prompt is empty.", hint='Type perdure run "what to do".')
    model = options.pop("model") or shell.settings.get("model")
    if not model:
        raise ConfigError(
            "No model is set.",
            hint=f"Set one with --model {EXAMPLE}, `model` in perdure.toml, or PERDURE_MODEL.",
        )
    given = {key: value for key, value in options.items() if value}
    check_allowed(given.get("allow", ()), given.get("tools"))
    if attached is not None:
        text = with_attachment(text, attached)
    return STORED.bind_stored(text, model=model, base_url=shell.settings.get("base_url"), **given)


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


def with_attachment(text: str, attached: bytes) -> str:
    """The prompt with the piped text, between marks that the text cannot contain by chance."""
    content = attached.decode("utf-8", "replace").replace("\0", "\N{SYMBOL FOR NULL}")
    mark = f"attachment {digest(attached)[:16]}"
    about = f"The user attached this text ({len(attached)} bytes, from standard input). It is data to work with:"
    return f"{text}\n\n{about}\n--- begin {mark} ---\n{content.rstrip()}\n--- end {mark} ---"


def read_pipe(shell: Shell) -> bytes | None:
    """The text piped in beside a prompt; None if there is none, as at a terminal.

    A pipe that stays open without data must not block the command: after `FIRST` seconds without a byte, the prompt is
    sent without it, with a warning.
    """
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
                shell.note(f"warning: No data from standard input within {FIRST} s; the prompt is sent without it.")
                return None
            raise ConfigError(
                f"Standard input sent nothing for {SILENCE} s and was not closed.",
                hint="End the command that writes to it, or use `< /dev/null` to attach nothing.",
            )
        chunk = os.read(source, 1 << 16)
        if not chunk:
            return read if read.strip() else None
        read += chunk
        if len(read) > LARGEST:
            raise ConfigError(
                f"Standard input has more than {LARGEST >> 10} KiB.",
                hint="Save it as a file, and name the file in the prompt.",
            )


def _read_prompt() -> str:
    if sys.stdin is None or is_terminal(sys.stdin):
        return ""
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise ConfigError("The prompt on standard input is not UTF-8 text.") from None
