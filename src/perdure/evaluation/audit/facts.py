"""The questions that are asked, and how the rows of an answer become facts that can be compared with the truth.

A fact is a list of plain values, in the order that `verifiers/audit.py` names. Both systems answer with facts, and only
the verifier knows the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Fact = list[Any]
TARGET = "path:deploy/*"  # what the question about targets asks for
PARAMETERS: dict[str, dict[str, str]] = {"targets": {"target": TARGET}}
COLUMNS = {
    "failed-runs": "session tool",
    "waiting": "session waits_for",
    "retries": "repository retries",
    "exemptions": "exemption rule granted_by used",
    "targets": "session effect target",
    "approvals": "session effect decision voter",
    "doubts": "session effect doubt",
    "verdicts": "session effect verdict by",
    "repeated": "session effect attempt",
    "refused": "session effect",
    "incidents": "session effect what",
    "costs": "day owner cost_micros",
    "access": "session identity action",
}
QUESTIONS = tuple(COLUMNS)


def facts_of(question: str, rows: Iterable[Mapping[str, Any]]) -> list[Fact]:
    """The rows of an answer of Perdure as facts."""
    made = [[row[name] for name in COLUMNS[question].split()] for row in rows]
    match question:
        case "approvals":
            return [[*fact[:3], fact[3] or ""] for fact in made]
        case "incidents":
            return [[*fact[:2], fact[2].removeprefix("effect.")] for fact in made if fact[2] in WRONG]
        case "retries":
            return [fact for fact in made if fact[1]]
    return made


WRONG = ("effect.failed", "effect.doubted")
