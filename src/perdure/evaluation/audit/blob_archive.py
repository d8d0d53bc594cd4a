"""The same history as session blobs: one JSON document for each session, with every event that Perdure recorded.

This is the strongest blob for an audit: nothing is missing from it that a session knows. What it has no place for is
what belongs to no session, such as exemptions and who read what. An answer reads every document, because nothing says
which of them matter.

A session that keeps only messages and results (`result-only`) reads the same documents and knows less.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from perdure.evaluation.audit.facts import TARGET, Fact
from perdure.runtime.runtime import Runtime

DAY = 86_400 * 1_000_000
Document = dict[str, Any]


async def write_archive(runtime: Runtime, folder: Path) -> None:
    """Write a document for each session of a store."""
    async for view in runtime.sessions():
        events = [
            {"at": one.at, "kind": one.kind, "actor": one.actor, "effect": one.effect_id, "body": one.body}
            async for one in runtime.events(view.id)
        ]
        head = {"id": view.id, "owner": view.owner, "repository": view.repository, "status": view.status}
        (folder / f"{view.id}.json").write_bytes(msgspec.json.encode({**head, "events": events}))


class BlobArchive:
    """Answers from the documents of a folder. `events` counts those that were decoded."""

    def __init__(self, folder: Path, *, results_only: bool = False) -> None:
        self._folder = folder
        self._results_only = results_only
        self.events = 0

    def answer(self, question: str, since: int, until: int) -> list[Fact] | None:
        """The facts that answer a question; None if no document has what it asks for."""
        find = FINDERS.get(question)
        if find is None or (self._results_only and question != "costs"):
            return None
        facts: list[Fact] = []
        for document in self._documents():
            within = [event for event in document["events"] if since <= event["at"] < until]
            facts += find(document, within)
        return _summed(question, facts)

    def _documents(self) -> Iterator[Document]:
        for path in sorted(self._folder.glob("*.json")):
            document = msgspec.json.decode(path.read_bytes())
            self.events += len(document["events"])
            yield document


def _summed(question: str, facts: list[Fact]) -> list[Fact]:
    if question not in ("retries", "costs"):
        return facts
    sums: Counter[tuple[Any, ...]] = Counter()
    for *key, number in facts:
        sums[tuple(key)] += number
    return [[*key, number] for key, number in sums.items()]


def _effects(document: Document) -> dict[str, dict[str, Any]]:
    """The effects of a session, with the time at which each was planned."""
    found: dict[str, dict[str, Any]] = {}
    for event in document["events"]:
        for row in event["body"].get("rows", {}).get("effect", []):
            if "tool" in row and row["id"] not in found:
                found[row["id"]] = row | {"at": event["at"]}
    return found


def _with_kind(
    kind: str, make: Callable[[Document, Document], Fact]
) -> Callable[[Document, list[Document]], list[Fact]]:
    return lambda document, events: [make(document, event) for event in events if event["kind"] == kind]


def _failed_runs(document: Document, events: list[Document]) -> list[Fact]:
    effects = _effects(document)
    return [[document["id"], effects[one["effect"]]["tool"]] for one in events if one["kind"] == "effect.failed"]


def _incidents(document: Document, events: list[Document]) -> list[Fact]:
    kinds = ("effect.failed", "effect.doubted")
    return [[document["id"], one["effect"], one["kind"][7:]] for one in events if one["kind"] in kinds]


def _doubts(document: Document, events: list[Document]) -> list[Fact]:
    settled = {one["effect"] for one in document["events"] if one["kind"] == "effect.settled"}
    return [
        [document["id"], one["effect"], one["body"]["why"]]
        for one in events
        if one["kind"] == "effect.doubted" and one["effect"] not in settled
    ]


def _waiting(document: Document, events: list[Document]) -> list[Fact]:
    resolved = {row["id"] for one in document["events"] if one["kind"] == "wait.resolved" for row in _waits(one)}
    opened = [row for one in events for row in _waits(one) if "kind" in row]
    return [[document["id"], row["kind"]] for row in opened if row["id"] not in resolved]


def _waits(event: Document) -> list[Document]:
    found: list[Document] = event["body"].get("rows", {}).get("wait", [])
    return found


def _approvals(document: Document, events: list[Document]) -> list[Fact]:
    asked = {row["ref"]: row["id"] for one in events for row in _waits(one) if row.get("kind") == "approval"}
    decided: dict[str, str] = {}
    voters: dict[str, list[str]] = defaultdict(list)
    for one in document["events"]:
        if one["kind"] == "approval.voted":
            voters[one["body"]["approval"]].append(one["actor"])
        for row in one["body"].get("rows", {}).get("approval", []):
            decided[row["id"]] = row.get("decision") or decided.get(row["id"], "waiting")
    return [
        [document["id"], effect, decided.get(id) or "waiting", voter]
        for effect, id in asked.items()
        for voter in voters[id] or [""]
    ]


def _targets(document: Document, events: list[Document]) -> list[Fact]:
    prefix, times = TARGET.removesuffix("*"), {one["at"] for one in events}
    return [
        [document["id"], id, target]
        for id, effect in _effects(document).items()
        for target in effect["targets"]
        if target.startswith(prefix) and effect["at"] in times
    ]


def _costs(document: Document, events: list[Document]) -> list[Fact]:
    spent = [(one["at"], one["body"]["usage"][2]) for one in events if "usage" in one["body"]]
    return [[at - at % DAY, document["owner"], cost] for at, cost in spent]


FINDERS: dict[str, Callable[[Document, list[Document]], list[Fact]]] = {
    "failed-runs": _failed_runs,
    "waiting": _waiting,
    "retries": _with_kind("session.retried", lambda document, _: [document["repository"], 1]),
    "targets": _targets,
    "approvals": _approvals,
    "doubts": _doubts,
    "verdicts": _with_kind(
        "effect.settled", lambda document, one: [document["id"], one["effect"], one["body"]["verdict"], one["actor"]]
    ),
    "repeated": lambda document, events: [
        [document["id"], one["effect"], one["body"]["attempt"]]
        for one in events
        if one["kind"] == "effect.dispatched" and one["body"]["attempt"] > 1
    ],
    "refused": _with_kind("effect.refused", lambda document, one: [document["id"], one["effect"]]),
    "incidents": _incidents,
    "costs": _costs,
}
