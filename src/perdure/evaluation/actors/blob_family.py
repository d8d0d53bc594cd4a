"""The same five actors over session blobs: each session is one JSON document, changed as a whole.

The document has what the work needs: messages, the effects with their states, approvals, a pause, the holder, and a log
of values. The worker writes an intent before it acts and the outcome after it, as a careful blob does.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from perdure.clock import boot_time
from perdure.evaluation.actors.family import STOP, ActorTrial, is_gated
from perdure.evaluation.actors.history import ActorHistory
from perdure.evaluation.payload import text
from perdure.evaluation.session_blob import SessionBlob

PAUSE = 0.005
NEW: dict[str, Any] = {
    "status": "ready", "inbox": [], "taken": [], "effects": {}, "approvals": {}, "paused": False, "holder": None,
    "log": [], "history": [],
}  # fmt: skip
LINE = 1000


class Ended(PermissionError):
    """The session has ended."""


class BlobFamily:
    """The family of sessions as one process sees it."""

    def __init__(self, trial: ActorTrial, *, meets: bool = False) -> None:
        self.trial = trial
        meeting = trial.meeting if meets and not trial.lock else None
        self.blobs = {
            name: SessionBlob(
                Path(trial.target, f"{name}.json"), lock=trial.lock, meeting=meeting if name == trial.names[0] else None
            )
            for name in trial.names
        }

    def start(self) -> None:
        for blob in self.blobs.values():
            blob.write(NEW | {"history": [text(LINE, number) for number in range(self.trial.history)]})

    def is_over(self) -> bool:
        ended = (blob.read()["status"] in ("done", "cancelled") for blob in self.blobs.values())
        return all(ended) or self.trial.is_given_up()

    def append(self, name: str, value: str, change: Callable[[Any], None]) -> None:
        """Change the document of a session that has not ended, and add a value to its log."""

        def act(document: Any) -> None:
            if document["status"] in ("done", "cancelled"):
                raise Ended("The session has ended.")
            change(document)
            document["log"].append(value)

        self.blobs[name].change(act)

    def close(self) -> None:
        for blob in self.blobs.values():
            blob.close()


async def schedule(family: BlobFamily, history: ActorHistory) -> None:
    for number in range(family.trial.messages + 1):
        for name in family.trial.names:
            value, is_last = history.value(), number == family.trial.messages
            text = STOP if is_last else value

            async def send(name: str = name, value: str = value, text: str = text) -> None:
                family.append(name, value, lambda document: document["inbox"].append([value, text]))

            await history.append(name, value, send, message=not is_last)


async def approve(family: BlobFamily, history: ActorHistory) -> None:
    while not family.is_over():
        for name, blob in family.blobs.items():
            for message, decision in blob.read()["approvals"].items():
                if decision is None:
                    value = history.value()

                    async def vote(name: str = name, value: str = value, message: str = message) -> None:
                        family.append(name, value, lambda document: document["approvals"].update({message: "approved"}))

                    await history.append(name, value, vote)
        await asyncio.sleep(PAUSE)


async def cancel(family: BlobFamily, history: ActorHistory) -> None:
    drawn, trial = random.Random(family.trial.seed), family.trial
    for number in range(trial.pauses):
        name = drawn.choice(trial.names[:-1]) if number else trial.names[0]
        for paused in (True, False):
            await _change(family, history, name, paused=paused)
        if number == trial.pauses // 2:
            await _change(family, history, trial.victim, status="cancelled")


async def _change(family: BlobFamily, history: ActorHistory, name: str, **fields: Any) -> None:
    value = history.value()

    async def change() -> None:
        family.append(name, value, lambda document: document.update(fields))

    await history.append(name, value, change)


async def audit(family: BlobFamily, history: ActorHistory) -> None:
    over = False
    while not over:
        over = family.is_over()
        for name, blob in family.blobs.items():
            called, digest = boot_time(), sha256()
            log = blob.read()["log"]
            for number, value in enumerate(log, 1):
                digest.update(f"{number}:{value}\n".encode())
            history.read(name, called, len(log), digest.hexdigest())
        await asyncio.sleep(PAUSE)


async def work(family: BlobFamily, history: ActorHistory) -> None:
    """The worker: for each session in turn, take it, act on one message, give it back."""
    path = Path(family.trial.folder, f"acts-{history.actor}.jsonl")
    acts = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
    while not family.is_over():
        busy = False
        for name, blob in family.blobs.items():
            message = blob.change(lambda document: _plan(document, history.actor))
            if message is None:
                continue
            busy, called = True, boot_time()
            os.write(acts, msgspec.json.encode({"message": message}) + b"\n")
            blob.change(lambda document, message=message: _settle(document, message))  # type: ignore[misc]
            history.done(name, called, f"act:{message}")
        if not busy:
            await asyncio.sleep(PAUSE)
    os.fsync(acts)


def _plan(document: Any, holder: str) -> str | None:
    """Write the intent of the next act into the document; None if there is nothing to do here."""
    if document["status"] != "ready" or document["paused"] or document["holder"] is not None:
        return None
    if len(document["taken"]) == len(document["inbox"]):
        return None
    id, text = document["inbox"][len(document["taken"])]
    if text == STOP:
        document["status"] = "done"
        document["taken"].append(id)
        return None
    if is_gated(len(document["taken"]) + 1) and document["approvals"].setdefault(id, None) is None:
        return None
    document["taken"].append(id)
    document["holder"], document["effects"][id] = holder, "dispatched"
    return str(id)


def _settle(document: Any, message: str) -> None:
    document["holder"], document["effects"][message] = None, "acknowledged"
    document["log"].append(f"act:{message}")


def write_final(family: BlobFamily) -> None:
    """Write what the documents hold in the end, for the verifier."""
    found = {name: blob.read() for name, blob in family.blobs.items()}
    lines = [{"session": name, "values": document["log"]} for name, document in found.items()]
    state = {
        "taken": [id for document in found.values() for id in document["taken"]],
        "cancelled": [family.trial.victim],
        "unfinished": [name for name, document in found.items() if document["status"] not in ("done", "cancelled")],
    }
    folder = Path(family.trial.folder)
    (folder / "final.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    (folder / "state.jsonl").write_bytes(msgspec.json.encode(state) + b"\n")
