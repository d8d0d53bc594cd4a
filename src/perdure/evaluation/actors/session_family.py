"""The five actors over Perdure: each in a process of its own, with the public library alone.

scheduler   sends every session its messages, in turn, and at the end the message to stop
worker      runs the sessions: each message is one effect; every third one asks a person first
approver    approves what is asked
canceller   pauses and resumes sessions under way, and cancels one of them
auditor     reads whole logs again and again
"""

from __future__ import annotations

import asyncio
import os
import random
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from perdure.clock import SECOND, boot_time
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL
from perdure.evaluation.actors.family import STOP, ActorTrial, is_gated
from perdure.evaluation.actors.history import ActorHistory
from perdure.evaluation.payload import text
from perdure.ids import new_uid
from perdure.runtime.definitions.program import program
from perdure.runtime.definitions.tool import Gate, tool
from perdure.runtime.runtime import Runtime
from perdure.runtime.session import Session
from perdure.runtime.workers.worker import Worker
from perdure.store.moves import lease, message
from perdure.store.moves import session as sessions

HOUR = 3600 * SECOND
LINE, PAGE = 1000, 500
PAUSE = 0.005  # seconds between two looks of an actor that waits for others
_acted: set[str] = set()  # messages on which this process acted
_history: ActorHistory | None = None  # of this process, if it is a worker
_acts: int | None = None  # the file in which the tool writes what it did


def _act(message: str) -> str:
    assert _acts is not None
    _acted.add(message)
    os.write(_acts, msgspec.json.encode({"message": message}) + b"\n")
    return message


@tool(replay="idempotent", name="evaluation_act")
def act(message: str) -> str:
    """Act on a message."""
    return _act(message)


@tool(replay="idempotent", name="evaluation_gated_act", gate=Gate("evaluation"))
def gated_act(message: str) -> str:
    """Act on a message after a person has approved it."""
    return _act(message)


@program
async def evaluation_member(s: Session) -> int:
    """A session of the family: one effect for each message, until it is told to stop."""
    count = 0
    while (message := await s.receive(str)) != STOP:
        count += 1
        called = boot_time()
        await s.do(gated_act if is_gated(count) else act, message=message)
        if message in _acted and _history is not None:  # otherwise the answer came from the record
            _acted.discard(message)
            _history.done(s.id, called, f"act:{message}")
    return count


async def start(runtime: Runtime, trial: ActorTrial) -> None:
    """Start the family, each session with its history."""
    for name in trial.names:
        session = await runtime.start(evaluation_member.bind(), id=name)
        holder = await runtime.store.write(lease.acquire(session.uid, "evaluation", nonce=new_uid(), ttl=HOUR))
        lines = [{"role": "assistant", "content": text(LINE, number)} for number in range(trial.history)]
        for first in range(0, len(lines), PAGE):
            await runtime.store.write(message.append_lines(holder, lines[first : first + PAGE]))
        await runtime.store.write(sessions.release(holder))


async def is_over(runtime: Runtime, trial: ActorTrial) -> bool:
    return trial.is_given_up() or all([(await runtime.get(name)).status in TERMINAL for name in trial.names])


async def end(runtime: Runtime, trial: ActorTrial) -> None:
    """Wait until every session has ended."""
    while True:
        if await is_over(runtime, trial):
            return
        await asyncio.sleep(10 * PAUSE)


async def work(runtime: Runtime, trial: ActorTrial, history: ActorHistory) -> None:
    """The worker, until every session has ended."""
    global _history, _acts
    path = Path(trial.folder, f"acts-{history.actor}.jsonl")
    _history, _acts = history, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
    async with Worker(runtime, concurrency=trial.sessions):
        await end(runtime, trial)
    os.fsync(_acts)


async def schedule(runtime: Runtime, trial: ActorTrial, history: ActorHistory) -> None:
    for _ in range(trial.messages):
        for name in trial.names:
            value = history.value()
            await history.append(name, value, lambda n=name, v=value: runtime.send(n, v, message_id=v), message=True)  # type: ignore[misc]
    for name in trial.names:
        value = history.value()
        await history.append(name, value, lambda n=name, v=value: runtime.send(n, STOP, message_id=v))  # type: ignore[misc]


async def approve(runtime: Runtime, trial: ActorTrial, history: ActorHistory) -> None:
    names = {(await runtime.get(name)).uid: name for name in trial.names}
    while not await is_over(runtime, trial):
        async for asked in runtime.approvals():
            if asked.decision is not None:
                continue
            value = history.value()
            await history.append(
                names[asked.session_uid],
                value,
                lambda id=asked.id, v=value: runtime.approve(id, by="grace", because=v),  # type: ignore[misc]
            )
        await asyncio.sleep(PAUSE)


async def cancel(runtime: Runtime, trial: ActorTrial, history: ActorHistory) -> None:
    """Pause and resume sessions, chosen by the seed; half way, cancel the victim."""
    drawn = random.Random(trial.seed)
    for number in range(trial.pauses):
        name = drawn.choice(trial.names[:-1]) if number else trial.names[0]
        for request in (runtime.pause, runtime.resume):
            value = history.value()
            await history.append(name, value, lambda n=name, v=value, r=request: r(n, by=v))  # type: ignore[misc]
        if number == trial.pauses // 2:
            value = history.value()
            await history.append(trial.victim, value, lambda v=value: runtime.cancel(trial.victim, by=v))  # type: ignore[misc]


async def audit(runtime: Runtime, trial: ActorTrial, history: ActorHistory) -> None:
    """Read whole logs until every session has ended, and once more."""
    over = False
    while not over:
        over = await is_over(runtime, trial)
        for name in trial.names:
            called, digest, number = boot_time(), sha256(), 0
            async for event in runtime.events(name):
                number = event.number
                digest.update(f"{number}:{value_of(event)}\n".encode())
            history.read(name, called, number, digest.hexdigest())
        await asyncio.sleep(PAUSE)


def value_of(event: Event) -> str:
    """The value that an actor appended with this event; empty for other events."""
    body: dict[str, Any] = event.body or {}
    match event.kind:
        case "inbox.received":
            return str(body["id"])
        case "approval.voted":
            return str(body["because"])
        case "pause.requested" | "cancel.requested":
            return event.actor
        case "effect.acknowledged":
            return f"act:{msgspec.json.decode(body['rows']['effect'][0]['result'])}"
    return ""


async def write_final(runtime: Runtime, trial: ActorTrial) -> None:
    """Write what the store holds in the end, for the verifier."""
    taken, lines = [], []
    for name in trial.names:
        events = [event async for event in runtime.events(name)]
        lines.append({"session": name, "values": [value_of(event) for event in events]})
        taken += [event.body["inbox"] for event in events if event.kind == "message" and "inbox" in event.body]
    ended = {name: (await runtime.get(name)).status for name in trial.names}
    state = {
        "taken": taken,
        "cancelled": [trial.victim],
        "unfinished": [name for name, status in ended.items() if status not in TERMINAL],
    }
    folder = Path(trial.folder)
    (folder / "final.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    (folder / "state.jsonl").write_bytes(msgspec.json.encode(state) + b"\n")
