"""The evidence about one subject: what an undisturbed run does, and what kills and faults of the service left."""

from __future__ import annotations

from collections import Counter

import msgspec

from perdure.evaluation.own_tools.guard import MOMENT
from perdure.testing.sweep.expectation import SinkLog

Log = SinkLog
SENT = ("posted", "looked", "deleted")


class SentRequest(msgspec.Struct, frozen=True):
    """One request of an undisturbed run: who sent it, and what the sink did with it."""

    place: str  # `tool charge (shop.py:12)`
    what: str
    keyed: bool = False


class UndisturbedRun(msgspec.Struct, frozen=True):
    """What a run without a kill did: its kill points, its effects in their order, and what it left outside."""

    moments: list[str]
    effects: list[str]
    outside: Counter[str]
    log: Log

    @property
    def places(self) -> list[str]:
        """Who made connections or started commands, in order."""
        return [one.partition(" of ")[2] for one in self.moments if one.startswith(MOMENT)]

    @property
    def commands(self) -> bool:
        return any(one.startswith(f"{MOMENT} command") for one in self.moments)

    def requests(self) -> list[SentRequest]:
        """The requests with the places that sent them; none if they cannot be told apart."""
        lines = [line for line in self.log if line["what"] in SENT]
        if len(lines) != len(self.places):
            return []
        return [
            SentRequest(place, line["what"], bool(line.get("key") or line.get("marker")))
            for place, line in zip(self.places, lines, strict=True)
        ]


class Failure(msgspec.Struct, frozen=True):
    """What was wrong after one trial. `fault` is that of the service; without one, a process was killed."""

    where: str
    fault: str
    head: str
    text: str


class TrialEvidence(msgspec.Struct, kw_only=True):
    """Everything that is known about one subject."""

    first: UndisturbedRun
    second: UndisturbedRun
    failures: list[Failure] = []
    kills: int = 0
    faults: int = 0
    notes: list[str] = []

    def heads(self, *, fault: bool | None = None) -> Counter[str]:
        """How often each head was found, after kills or after faults of the service."""
        chosen = [one for one in self.failures if fault is None or bool(one.fault) is fault]
        return Counter(one.head for one in chosen)

    @property
    def left(self) -> int:
        """How many things an undisturbed run leaves outside."""
        return sum(self.first.outside.values())
