"""The page of the questions of an audit: parameters, columns, and the indexes that answer each."""

from __future__ import annotations

from perdure.store.audit.question import AuditQuestion
from perdure.store.audit.questions import QUESTIONS

INTRO = """
`perdure audit QUESTION` and `rt.audit(question, ...)` answer these questions from the record of a store
([how to](../how-to/audit.md)). Every question also takes `since`, `until` and a limit. The names of questions,
parameters and columns do not change; more may be added.

Times are microseconds since 1970 in JSON and Python, and times in UTC in tables and CSV. Costs are millionths of a
dollar; a table shows dollars.
"""


def audit_page() -> list[str]:
    """The parts of the page."""
    return [INTRO, *(part for one in QUESTIONS.values() for part in _section(one))]


def _section(question: AuditQuestion) -> list[str]:
    needed = set(question.needed)
    rows = [f"| `{one.name}` | {one.meaning} |" for one in question.columns]
    given = [
        f"| `{one.name}` | {one.meaning}{'; one of these is needed' if one.name in needed else ''} |"
        for one in question.parameters
    ]
    indexes = ", ".join(f"`{name}`" for name in sorted({name for plan in question.plans for name in plan.indexes}))
    return [
        f"## {question.name}",
        question.sentence,
        f"The range compares {question.ranged}. Answered by the indexes {indexes}.",
        *(["\n".join(["| parameter | meaning |", "|---|---|", *given])] if given else []),
        "\n".join(["| column | meaning |", "|---|---|", *rows]),
    ]
