"""Questions of an audit: the same recent time in a history of 1,000,000 events and in one of 100,000.

Both histories end with the same 10,000 events, and each question is asked about these. The time of an answer must not
grow with what happened before. `PERDURE_BENCH_EVENTS` gives another size for the longer history; the shorter one has a
tenth.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Budget, Contestant, Line, Table, contest
from perdure.evaluation.audit.history import AuditHistory, write_history
from perdure.evaluation.measurement import MILLISECONDS
from perdure.store.audit import answers
from perdure.store.audit.answers import AuditRange
from perdure.store.audit.questions import QUESTIONS
from perdure.store.store import Store, open_store
from perdure.testing.postgres import PostgresServer

EVENTS = int(os.environ.get("PERDURE_BENCH_EVENTS", "1000000"))
TURNS = 7
FLAT = Budget("≤", 2.0)


def tables(folder: Path, rounds: int) -> Iterator[Table]:
    size = f"{EVENTS:,} events to {EVENTS // 10:,}"
    paths = [str(folder / f"audit-{number}.db") for number in range(2)]
    yield Table(f"audit on SQLite, {size}", lines(paths, rounds, lambda _: None))
    with PostgresServer() as server:
        urls = [server.create_database() for _ in range(2)]
        yield Table(f"audit on PostgreSQL, {size}", lines(urls, rounds, analyze))


def lines(targets: list[str], rounds: int, settle: Callable[[str], None]) -> Iterator[Line]:
    short, long = targets
    with open_store(short) as one, open_store(long) as other:
        histories = [write_history(one, events=EVENTS // 10), write_history(other, events=EVENTS)]
        for target in targets:
            settle(target)
        for case, parameters in cases(histories[1]):
            turns = [asked(store, case, parameters, made) for store, made in zip((one, other), histories, strict=True)]
            yield from contest(
                MILLISECONDS,
                turns[0],
                [Contestant(named(case, parameters), turns[1], FLAT)],
                rounds=rounds,
                turns=TURNS,
            )


def cases(history: AuditHistory) -> Iterator[tuple[str, dict[str, str | None]]]:
    """Every question, in each of its ways."""
    last = f"audit-{history.sessions - 1}"
    for question in QUESTIONS.values():
        for name in dict.fromkeys(question.needed) or ("",):
            given: dict[str, str | None] = {"session": last} if name == "session" else {}
            given = {"effect": f"e-{last}-1"} if name == "effect" else given
            given = {"commit": "abcdef0"} if name == "commit" else given
            yield question.name, {"target": "branch:main"} if name == "target" else given
        if question.name == "targets":
            yield question.name, {"target": "path:deploy/*"}


def named(case: str, parameters: dict[str, str | None]) -> str:
    return f"{case} {' '.join(f'{name}={value}' for name, value in parameters.items())}".strip()


def asked(store: Store, name: str, parameters: dict[str, str | None], history: AuditHistory) -> Callable[[], float]:
    """Ask once, and return how long the whole answer took."""
    span = AuditRange(history.since, history.until)
    given = dict(parameters)
    for key in ("session", "effect"):  # the last session of this history
        if given.get(key):
            given[key] = (
                f"{'e-' if key == 'effect' else ''}audit-{history.sessions - 1}{'-1' if key == 'effect' else ''}"
            )

    def ask() -> float:
        began = time.perf_counter()
        store.read_now(lambda tx: list(answers.answer(tx, name, given, span)))
        return time.perf_counter() - began

    return ask


def analyze(url: str) -> None:
    """Give the planner its statistics, as autovacuum does in time."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as server:
        server.execute("vacuum analyze")
