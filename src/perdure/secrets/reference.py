"""References to secrets: where a value is, never the value.

    env:NAME      a variable in the environment of the process that uses it
    file:/PATH    the content of a file, without white space around it

Only the reference is stored, so it is part of digests and keys. The value is read where and when it is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from perdure.errors import ConfigError
from perdure.secrets import redaction
from perdure.secrets.redaction import KNOWN, SHORTEST

LONGEST = 64 << 10  # bytes of a file
OWN = ("env:ANTHROPIC_API_KEY", "env:OPENAI_API_KEY", "env:PERDURE_TOKEN")  # what Perdure itself reads
HOW = 'Write "env:NAME" or "file:/path"; the value itself is never written down.'
_REFERENCE = re.compile(r"(env):([A-Za-z_][A-Za-z0-9_]*)|(file):(/[^\x00-\x1f\x7f\]]+)")


def check_reference(text: str) -> str:
    """Refuse what is not a reference. The message does not repeat it: it may be the secret itself."""
    if _REFERENCE.fullmatch(text) is None:
        raise ConfigError("A secret is not a reference.", hint=HOW)
    return text


def read_value(reference: str) -> str:
    """The value that a reference names, as it is now, of any length. Raises `ConfigError` if there is none."""
    found = _REFERENCE.fullmatch(check_reference(reference))
    assert found is not None
    if found[1]:
        value, why = os.environ.get(found[2], ""), "is not set in the environment of this process"
    else:
        try:
            with Path(found[4]).open("rb") as file:
                value, why = file.read(LONGEST).decode().strip(), "is empty"
        except (OSError, UnicodeDecodeError):
            value, why = "", "is in a file that this process cannot read"
    try:
        value.encode()
    except UnicodeEncodeError:
        value, why = "", "is not text"
    if not value:
        hint = "Make it available to the process that runs the session, then run it again."
        raise ConfigError(f"The secret {reference} {why}.", hint=hint, why=why)
    return value


def read_secret(reference: str) -> str:
    """The same for a secret, which is known from now on."""
    value = read_value(reference)
    check_length(reference, value)
    redaction.add(reference, value)
    return value


def check_length(reference: str, value: str) -> None:
    """Refuse a value that is too short to be told from other text."""
    if len(value) < SHORTEST:
        raise ConfigError(
            f"The secret {reference} is too short: at least {SHORTEST} characters are needed.",
            hint="So short a value would be replaced in text that has nothing to do with it. Use a longer one.",
        )


def name_secrets(references: Iterable[str] | str | None) -> None:
    """Know the secrets that the operator names, and Perdure's own. One that is not set here has no value to replace."""
    given = references.split(",") if isinstance(references, str) else references or ()
    named = [check_reference(one.strip()) for one in given if one.strip()]
    KNOWN.named |= frozenset(named)
    for reference in (*named, *OWN):
        try:
            value = read_value(reference)
        except ConfigError:
            continue
        if reference in named:
            check_length(reference, value)
        redaction.add(reference, value)


class Secret:
    """A reference to a secret, as an argument of a tool: `Secret("env:GITHUB_TOKEN")` or `Secret("file:/path")`.

    Declare the parameter as `token: perdure.Secret`. Only the reference is stored; `token.reveal()` is the value, in
    the process in which the tool acts.
    """

    __module__ = "perdure"
    __slots__ = ("_value", "reference")

    def __init__(self, reference: str) -> None:
        self.reference = check_reference(reference)
        self._value: str | None = None

    def reveal(self) -> str:
        """The value. From now on, it is replaced in everything that this process records."""
        return read_secret(self.reference) if self._value is None else self._value

    def resolve(self) -> None:
        """Read the value once, for an act that begins: it does not change meanwhile."""
        self._value = read_secret(self.reference)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reference == self.reference

    def __hash__(self) -> int:
        return hash(self.reference)

    def __repr__(self) -> str:
        return f"Secret({self.reference!r})"

    def __str__(self) -> str:
        return redaction.marker(self.reference)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Secret, (self.reference,))
