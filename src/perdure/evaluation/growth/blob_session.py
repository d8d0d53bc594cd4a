"""The same turns over a session blob: four changes of the whole document for each turn.

The message, the intent of the tool call, its result, and the answer are each durable before the next begins. With
compaction the document keeps the newest messages and drops the others, which a blob must do to stay small. Two more
strengths keep everything: `result-only` writes a call together with its result, and `intent+key` keeps a key for each.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from perdure.evaluation.growth.agent_session import LINE
from perdure.evaluation.payload import text
from perdure.evaluation.session_blob import SessionBlob

COMPACTION, RESULT_ONLY, INTENT_KEY = "compaction", "result-only", "intent+key"
KEPT = 40  # messages that remain after a compaction, which begins at twice as many


def build(path: Path, messages: int, *, strength: str) -> None:
    """Write a document with a history of so many messages."""
    compacted = strength == COMPACTION
    first = max(0, messages - KEPT) if compacted else 0
    lines = [_line(number) for number in range(first, messages)]
    document = {"messages": lines, "compacted": compacted, "dropped": first, "effects": {}}
    SessionBlob(path).write(document)


def _line(n: int) -> dict[str, Any]:
    return {"role": "user", "content": "continue"} if n % 2 == 0 else {"role": "assistant", "content": text(LINE, n)}


def turn(blob: SessionBlob, strength: str) -> None:
    """One turn: a message, a call with its intent, its result, an answer."""
    asked: dict[str, Any] = {"role": "assistant", "calls": [{"tool": "note"}]}
    number = add(blob, {"role": "user", "content": "continue"})
    if strength == RESULT_ONLY:
        number = add(blob, asked, {"role": "tool", "content": text(200, number)})
    else:
        name, more = (f"call-{number}", {"key": text(32, number)}) if strength == INTENT_KEY else ("newest", {})
        number = add(blob, asked, effect={name: {"state": "dispatched", **more}})
        add(blob, {"role": "tool", "content": text(200, number)}, effect={name: {"state": "acknowledged", **more}})
    add(blob, {"role": "assistant", "content": text(200, number)})


def add(blob: SessionBlob, *lines: dict[str, Any], effect: dict[str, Any] | None = None) -> int:
    """Add lines to the document, and the state of an effect; returns how many lines there were in all."""

    def change(document: Any) -> int:
        document["messages"].extend(lines)
        document["effects"].update(effect or {})
        if document["compacted"] and len(document["messages"]) > 2 * KEPT:
            document["dropped"] += len(document["messages"]) - KEPT
            document["messages"] = document["messages"][-KEPT:]
        return int(document["dropped"]) + len(document["messages"])

    return blob.change(change)


def resume(path: Path, strength: str) -> float:
    """Open the document and take one turn; seconds."""
    begun = time.perf_counter()
    blob = SessionBlob(path)
    turn(blob, strength)
    blob.close()
    return time.perf_counter() - begun


def fork(path: Path, to: Path, strength: str) -> float:
    """Copy the document and take the first turn of the branch; seconds."""
    begun = time.perf_counter()
    source, branch = SessionBlob(path), SessionBlob(to)
    branch.write(source.read())
    turn(branch, strength)
    source.close()
    branch.close()
    return time.perf_counter() - begun
