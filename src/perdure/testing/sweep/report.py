"""The report of a crash sweep: what was killed, where, and what was found afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

HEADS = ("duplicated", "lost", "needless", "blind", "stuck", "broken")


@dataclass
class KillPoint:
    """What was found after kills at one point of the program."""

    kills: int = 0
    outside: Counter[int] = field(default_factory=Counter)  # how many effects had landed at the kill, how often
    counts: Counter[str] = field(default_factory=Counter)


@dataclass
class Report:
    """What a sweep found. `moments` is the number of kill points that an undisturbed run has."""

    name: str
    moments: int = 0
    kills: int = 0
    unreached: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    positions: dict[str, KillPoint] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether something was killed and nothing was found wrong."""
        return not self.failures and self.kills > 0

    def add(self, where: str, kills: int, landed: int, found: Mapping[str, Sequence[str]]) -> None:
        """Add what one trial found."""
        self.kills += kills
        self.unreached += not kills
        point = self.positions.setdefault(where, KillPoint())
        point.kills += kills
        point.outside[landed] += 1
        for head, sentences in found.items():
            if sentences:
                self.counts[head] += 1
                point.counts[head] += 1
                self.failures.append(f"{self.name}, killed at {where}: {head}: {sentences[0]}")

    def __str__(self) -> str:
        rows = [["killed at", "kills", "landed by then", *HEADS]]
        for where, point in self.positions.items():
            landed = ", ".join(f"{count} ×{times}" for count, times in sorted(point.outside.items()))
            rows.append([where, str(point.kills), landed, *(str(point.counts[head]) for head in HEADS)])
        rows.append(["all", str(self.kills), "", *(str(self.counts[head]) for head in HEADS)])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        title = f"{self.name}: {self.kills} kills in {self.seconds:.1f} s"
        return "\n".join([title, *lines, *self.failures[:10]])
