"""The events of a stream, as typed records. They can be encoded with msgspec; the field `type` names the record."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class _StreamRecord(msgspec.Struct, frozen=True, tag_field="type", tag=True):
    """What every record has: the session that it is about."""

    session: str


class TextDelta(_StreamRecord, frozen=True):
    """A piece of the model's answer that is not recorded yet. Pieces with the same `reply` belong together.

    Live text can be incomplete; the `MessageAdded` that follows has the whole text.
    """

    __module__ = "perdure"

    reply: str
    text: str


class TextDiscarded(_StreamRecord, frozen=True):
    """The pieces of this reply will not be recorded: the model call failed, or its process died."""

    __module__ = "perdure"

    reply: str


class ModelRetry(_StreamRecord, frozen=True):
    """The model could not answer now and is asked again, at `due_at` in microseconds since 1970."""

    __module__ = "perdure"

    due_at: int
    attempt: int
    why: str


class MessageAdded(_StreamRecord, frozen=True):
    """A line of the transcript is recorded. `role` is user, assistant or note."""

    __module__ = "perdure"

    number: int
    role: str
    text: str


class ToolCallStarted(_StreamRecord, frozen=True):
    """A tool is called; a call by an agent may still need approval."""

    __module__ = "perdure"

    call: str
    name: str
    arguments: Any


class ToolOutput(_StreamRecord, frozen=True):
    """The last lines that a running command has printed so far; they replace earlier ones of the same call."""

    __module__ = "perdure"

    call: str
    lines: tuple[str, ...]


class ToolCallFinished(_StreamRecord, frozen=True):
    """The result of a call is recorded. `status` is done, failed, not started or unknown."""

    __module__ = "perdure"

    call: str
    name: str
    status: str
    text: str
    effect: str | None


class QuestionOpened(_StreamRecord, frozen=True):
    """A person is asked: `rt.answer(event.wait, ...)`."""

    __module__ = "perdure"

    wait: str
    question: str
    choices: tuple[str, ...]


class ApprovalRequested(_StreamRecord, frozen=True):
    """A person must decide about an effect: `rt.approve(event.approval, ...)` or `rt.deny`."""

    __module__ = "perdure"

    approval: str
    tool: str
    arguments: Any
    gate: str
    effect: str


class DoubtOpened(_StreamRecord, frozen=True):
    """The outcome of an effect is unknown: `rt.settle(event.effect, ...)`."""

    __module__ = "perdure"

    effect: str
    why: str


class SessionParked(_StreamRecord, frozen=True):
    """The session waits, and uses no process meanwhile; `kinds` are the kinds of its waits."""

    __module__ = "perdure"

    waits: tuple[str, ...]
    kinds: tuple[str, ...]


class SessionFinished(_StreamRecord, frozen=True):
    """The session has ended: done, failed or cancelled. `result` is stored JSON; `error` is a sentence."""

    __module__ = "perdure"

    status: str
    result: Any
    error: str | None


StreamEvent: TypeAlias = (
    TextDelta | TextDiscarded | ModelRetry | MessageAdded | ToolCallStarted | ToolOutput | ToolCallFinished
    | QuestionOpened | ApprovalRequested | DoubtOpened | SessionParked | SessionFinished
)  # fmt: skip
