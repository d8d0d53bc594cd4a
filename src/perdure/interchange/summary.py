"""SUMMARY.md: a session for people.

The content of a session was written by programs, models and other people. All of it is put into indented code blocks,
where Markdown is not interpreted, with characters that are not printable shown as escapes. Only the headings are ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from perdure.clock import format_time
from perdure.domain.effect import SETTLED
from perdure.domain.text import visible
from perdure.ids import decode, encode
from perdure.store.transfer.session_export import StoredSession

MESSAGES, CHARACTERS, CELL, EFFECTS = 20, 2000, 60, 200


def summary(kept: StoredSession, *, mode: str, copy: str | None, notes: list[str]) -> bytes:
    """The whole page."""
    lines = ["# A session of Perdure", ""]
    lines += _block(_heading(kept, mode, copy))
    for note in notes:
        lines += _block([note])
    lines += ["## What it is to do", "", *_block(_goal(kept))]
    lines += ["## What is open", "", *_block(_open(kept))]
    lines += ["## Effects", "", *_block(_effects(kept))]
    lines += [f"## The last {MESSAGES} messages", "", *_block(_messages(kept))]
    return ("\n".join(lines).rstrip() + "\n").encode()


def escape_invisible(text: str, *, keep: str = "") -> str:
    """The text with every invisible character escaped, except those to keep."""
    return visible(text, keep=keep)


def _block(lines: Iterable[str]) -> Iterator[str]:
    """Lines as an indented code block; a text of several lines becomes several."""
    for line in lines:
        yield from (("    " + part).rstrip() for part in escape_invisible(line, keep="\n").split("\n"))
    yield ""


def _heading(kept: StoredSession, mode: str, copy: str | None) -> Iterator[str]:
    row = kept.session
    yield f"session  {row['id']}  ({row['uid']})"
    yield f"status   {row['status']}, {len(kept.events)} events, the last at {format_time(row['updated_at'])}"
    yield f"bundle   a {mode}" + (f", which continues as {copy}" if copy else "")


def _goal(kept: StoredSession) -> Iterator[str]:
    row = kept.session
    for name in ("title", "program", "arguments", "owner", "repository", "result", "error"):
        if row[name] is not None:
            yield f"{name:<11}{_short(row[name], CHARACTERS)}"


def _open(kept: StoredSession) -> Iterator[str]:
    found = False
    for one in kept.tables["wait"]:
        if one["resolved_at"] is None:
            found = True
            what = _short(one["detail"] or one["ref"] or "")
            yield f"waits for {one['kind']} since {format_time(one['since'])}: {what}"
    for one in kept.tables["effect"]:
        if one["state"] not in SETTLED:
            found = True
            yield f"effect {one['id']} is {one['state']}: {_short(one['tool'])} {_short(one['intent'])}"
    for one in kept.tables["task"]:
        if one["state"] in ("open", "active", "blocked"):
            found = True
            yield f"task {_short(one['id'])} is {one['state']}: {_short(one['title'])}"
    for one in kept.tables["inbox"]:
        if one["promoted_as"] is None:
            found = True
            yield f"a message from {_short(one['sender'])} is unread: {_short(one['body'])}"
    if not found:
        yield "nothing"


def _effects(kept: StoredSession) -> Iterator[str]:
    effects = sorted(kept.tables["effect"], key=lambda one: one["number"])
    attempts = Counter(one["effect_id"] for one in kept.tables["attempt"])
    rows = [
        (one["id"], one["state"], str(attempts[one["id"]]), _short(one["tool"], 30), _short(one["intent"]))
        for one in effects[-EFFECTS:]
    ]
    table = [("effect", "state", "attempts", "tool", "with"), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(5)]
    if len(effects) > EFFECTS:
        yield f"the last {EFFECTS} of {len(effects)}"
    for row in table if rows else [("none",)]:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()


def _messages(kept: StoredSession) -> Iterator[str]:
    messages = [one for one in kept.events if one["kind"] == "message"]
    for one in messages[-MESSAGES:]:
        body = {} if one["body"] is None else decode(one["body"])
        content = body.get("content", body) if isinstance(body, dict) else body
        role = body.get("role") if isinstance(body, dict) else None
        text = content if isinstance(content, str) else encode(content)
        shown = "(erased)" if one["body"] is None else text[:CHARACTERS] + ("…" if len(text) > CHARACTERS else "")
        yield f"{one['number']}  {_short(str(role or one['actor']))}:"
        yield shown
        yield ""
    if not messages:
        yield "none"


def _short(value: Any, limit: int = CELL) -> str:
    text = escape_invisible(str(value)[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"
