"""The plan of each question: it uses its indexes, and reads no table from its beginning to its end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure.evaluation.audit.history import AuditHistory, write_history
from perdure.store.audit.answers import DAY, FIRST
from perdure.store.audit.question import AuditPlan, ColumnKind
from perdure.store.audit.questions import QUESTIONS
from perdure.store.statements import load
from perdure.store.store import Store, open_store

PLANS = [(question, plan) for question in QUESTIONS.values() for plan in question.plans]
VALUES: dict[str, Any] = FIRST | {
    "limit": 50, "session": "0" * 32, "effect": "e-1", "target": "path:src/",
    "commit": "abcdef0", "after_commit": "abcdef0g", "beyond": "path:src/\U0010ffff",
}  # fmt: skip
OPTIONAL = dict.fromkeys(("tool", "person", "owner", "rule", "kind", "model", "action"))
OF_SQLITE = {"model_usage_pkey": "sqlite_autoindex_model_usage_1"}  # the index of a primary key has no name of its own
OWN = re.compile(
    r"SCAN (again|taken|line|fired|incident|touched|batch|made|recent|\(subquery-\d+\)|\d+ CONSTANT ROW)\b"
)


@pytest.fixture
def explain(store: Store, target: str) -> Iterator[Callable[[AuditPlan], str]]:
    """How the database of this test would answer a statement."""
    history = write_history(store, events=10_000, recent=1_000)
    day = history.since - history.since % DAY
    values = VALUES | OPTIONAL | {"since": history.since, "until": history.until, "day": day}
    if not target.startswith("postgresql:"):
        with closing(apsw.Connection(target)) as db:
            yield lambda plan: "\n".join(
                str(row[3]) for row in db.execute(f"explain query plan {load('sqlite')[plan.statement]}", values)
            )
        return
    import psycopg

    with psycopg.connect(target, autocommit=True) as server:
        server.execute("analyze")
        server.execute("set enable_seqscan = off")  # of small tables; what has no index is read whole even so
        yield lambda plan: "\n".join(
            row[0] for row in server.execute(f"explain {load('postgres')[plan.statement]}", values)
        )


@pytest.mark.databases("sqlite", "postgres")
def test_each_plan_uses_the_indexes_that_its_question_names(explain: Callable[[AuditPlan], str], target: str) -> None:
    postgres = target.startswith("postgresql:")
    for question, plan in PLANS:
        found = explain(plan)
        for index in plan.indexes:
            assert (index if postgres else OF_SQLITE.get(index, index)) in found, (question.name, index, found)
        assert "Seq Scan" not in found, (plan.statement, found)
        scans = [line for line in found.splitlines() if line.startswith("SCAN ") and not OWN.match(line)]
        assert [line for line in scans if "USING" not in line] == [], (plan.statement, found)


def test_only_questions_that_show_bodies_read_them() -> None:
    shown = {ColumnKind.BODY, ColumnKind.JSON, ColumnKind.ERROR}
    for question, plan in PLANS:
        reads = re.search(r"\bbody\b", load("sqlite")[plan.statement]) is not None
        assert not reads or {column.kind for column in question.columns} & shown, plan.statement


IN_RANGE = (  # questions about a time, which an index of that time must answer
    "audit.who_approved_since", "audit.who_approved_in_range", "audit.targets_in_range", "audit.controls",
    "audit.refused", "audit.outside", "audit.approvals",
)  # fmt: skip
UNBOUNDED = "audit.who_approved_prefix"


def test_an_answer_reads_nothing_outside_of_its_range(folder: Path) -> None:
    """The steps of the database for the same time, after a short and after a long history of the same session."""
    steps: list[dict[str, int]] = []
    for events in (3_000, 24_000):
        path = str(folder / f"{events}.db")
        with open_store(path) as store:
            history = write_history(store, events=events, recent=1_000)
        with closing(apsw.Connection(path)) as db:
            steps.append({name: steps_of(db, name, history) for name in (*IN_RANGE, UNBOUNDED)})
    short, long = steps
    assert {name: (short[name], long[name]) for name in IN_RANGE if long[name] > 1.1 * short[name] + 50} == {}
    assert long[UNBOUNDED] > 1.5 * short[UNBOUNDED]  # what reads more is seen


def steps_of(db: apsw.Connection, statement: str, history: AuditHistory) -> int:
    """How many steps of its machine the database takes for an answer."""
    counted: list[int] = []
    (uid,) = next(db.execute("select session_uid from effect order by planned_at desc limit 1"))
    values = VALUES | OPTIONAL | {"since": history.since, "until": history.until, "session": uid, "limit": 1_000}
    db.trace_v2(apsw.SQLITE_TRACE_PROFILE, lambda one: counted.append(one["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]))
    list(db.execute(load("sqlite")[statement], values))
    db.trace_v2(0)
    return counted[-1]
