"""Notifications: what people are told outside Perdure, as rows of an outbox.

A notification is written in the transaction of what it is about, once for each channel. Afterwards it is sent by a
process that has the settings of that channel. A row never holds an address, a command or a secret, and a body has no
arguments of a call: it names what to look at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from perdure.clock import SECOND
from perdure.domain.record import Record
from perdure.domain.text import visible
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError
from perdure.ids import digest, encode

SHOWN = 300  # characters of a text that a person or a model wrote
MOST_ATTEMPTS = 32  # within a day
FIRST_PAUSE, LONGEST_PAUSE = 10 * SECOND, 3600 * SECOND
BUDGET = "budget"
REWOUND = "rewound"  # why an agent waits for a message after a rewind: its user knows


class Topic(StrEnum):
    """What a channel can be told about."""

    APPROVAL = "approval"  # an effect waits for approval, or more people are asked
    QUESTION = "question"  # a program or an agent asks a person
    DOUBT = "doubt"  # the outcome of an effect is unknown
    QUARANTINE = "quarantine"  # several workers in a row were lost while they ran a session
    FAILURE = "failure"  # a session has failed
    BUDGET = "budget"  # a budget is reached
    TEST = "test"  # `perdure notifications test`; every channel is told


class ChannelKind(StrEnum):
    WEBHOOK = "webhook"
    COMMAND = "command"
    EMAIL = "email"


class NotificationState(StrEnum):
    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


class NotificationChannel(Record, frozen=True):
    """A row of `notification_channel`: a name, and what is sent there. The settings of the senders have the rest."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"topics"})

    name: str
    kind: str
    topics: list[str]
    registered_by: str
    registered_at: int


class Notification(Record, frozen=True):
    """A row of `notification`. Its id is the same at every delivery, and on every channel."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"body"})

    id: str
    channel: str
    session_uid: str | None
    topic: str
    body: Any
    created_at: int
    state: str
    attempts: int
    next_at: int
    claimed_by: str | None
    sent_at: int | None
    error: str | None


OF_WAIT: Mapping[str, Topic] = {
    WaitKind.APPROVAL: Topic.APPROVAL,
    WaitKind.DOUBT: Topic.DOUBT,
    WaitKind.QUARANTINE: Topic.QUARANTINE,
    BUDGET: Topic.BUDGET,
}


def topic_of_wait(kind: str, ref: str | None, detail: Any) -> Topic | None:
    """What people are told about a wait that is opened; None: nothing."""
    if kind != WaitKind.INPUT:
        return OF_WAIT.get(kind)
    said = detail if isinstance(detail, dict) else {}
    if ref is not None:
        return Topic.QUESTION if "question" in said else None
    if "why" not in said or said.get("about") == REWOUND:  # an agent that has answered, or a program that receives
        return None
    return Topic.BUDGET if said.get("about") == BUDGET else Topic.FAILURE


def notification_id(session_uid: str, number: int, topic: str) -> str:
    """The id of what is told about one event of a session: the same however often the transaction is tried."""
    return f"n-{digest(encode([session_uid, number, topic]))[:24]}"


def describe(topic: Topic, session: str, about: Mapping[str, Any]) -> str:
    """One sentence for people."""
    said = {name: visible(str(text)[:SHOWN]) for name, text in about.items() if text is not None}
    tool = f" of {said['tool']}" if "tool" in said else ""
    match topic:
        case Topic.APPROVAL:
            gate = f" (gate {said['gate']})" if "gate" in said else ""
            return f"Session {session} waits for an approval{tool}{gate}: {said.get('wait', '')}."
        case Topic.QUESTION:
            return f"Session {session} asks: {said.get('question', '')}"
        case Topic.DOUBT:
            return f"Session {session} cannot tell whether effect {said.get('effect', '')}{tool} happened."
        case Topic.QUARANTINE:
            return f"Session {session} is in quarantine: several workers in a row were lost while they ran it."
        case Topic.FAILURE:
            return f"Session {session} needs a person after a failure: {said.get('why', 'no reason was recorded')}"
        case Topic.BUDGET:
            return f"Session {session} has reached a budget{': ' + said['why'] if 'why' in said else ''}."
        case Topic.TEST:
            return "This is a test of the notifications of Perdure."


def pause_after(attempts: int) -> int:
    """How long to wait before the next attempt, in microseconds."""
    return min(LONGEST_PAUSE, FIRST_PAUSE << min(attempts - 1, 16))


def check_topics(topics: Collection[str]) -> list[str]:
    """The topics of a channel, sorted; without any, all of them."""
    known = [str(one) for one in Topic if one is not Topic.TEST]
    if unknown := sorted(set(topics) - set(known)):
        raise ConfigError(f"{unknown[0]!r:.80} is not a topic.", hint=f"The topics are {', '.join(known)}.")
    return sorted(set(topics)) or known
