"""A scripted model: it needs no key and no network, and gives the same reply to the same request.

    Scripted(["Let me look.", {"text": "Now.", "calls": [{"name": "read", "arguments": {"path": "a"}}]}, "Done."])

A reply depends only on the number of the request, so a process that was killed gets it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from perdure.agent.model import OnText, Reply, Request, ToolCall, Usage
from perdure.agent.models.text import clean
from perdure.errors import ConfigError

ENDED = "The script has ended."
Line = dict[str, Any] | str
_PIECES = re.compile(r"\S+\s*|\s+")


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call in the script. `arguments` may be any text, to imitate a model that writes invalid JSON."""

    name: str
    arguments: dict[str, Any] | str = {}


class ScriptedTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reply of a script. `raw` becomes the reply's `extra`."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    usage: Usage = Usage()
    stop: Literal["end", "calls", "length", "refused"] | None = None
    raw: Any = None


class Scripted:
    """Plays the turns in order, or calls a function for each. A string stands for a turn with only that text."""

    def __init__(self, turns: Sequence[Line] | Callable[[Request], Line], name: str = "scripted") -> None:
        self._name = name
        self._turns = turns if callable(turns) else [_turn(line, number) for number, line in enumerate(turns)]

    @property
    def name(self) -> str:
        return self._name

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        """The turn with the request's number, streamed in pieces."""
        number = request.number
        if callable(self._turns):
            turn = _turn(self._turns(request), number)
        else:
            turn = self._turns[number] if 0 <= number < len(self._turns) else ScriptedTurn(text=ENDED)
        text = clean(turn.text)
        for piece in _PIECES.findall(text):
            on_text(piece)
        calls = tuple(
            ToolCall(f"call-{number}-{index}", call.name, call.arguments) for index, call in enumerate(turn.calls)
        )
        return Reply(text, calls, turn.usage, turn.stop or ("calls" if calls else "end"), self._name, turn.raw)


def _turn(line: Line, number: int) -> ScriptedTurn:
    try:
        return ScriptedTurn(text=line) if isinstance(line, str) else msgspec.convert(line, ScriptedTurn)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"Turn {number} of the script is wrong: {error}.", hint="A turn has text, calls, usage, stop and raw."
        ) from None


def scripted_file(path: str | Path) -> Scripted:
    """The script in a file: a JSON list of turns."""
    try:
        turns = msgspec.json.decode(Path(path).read_bytes(), type=list[dict[str, Any] | str])
    except OSError as error:
        raise ConfigError(f"The script {path} cannot be read: {error.strerror or error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The script {path} is not a JSON list of turns: {error}.") from None
    return Scripted(turns, name=f"scripted:{path}")
