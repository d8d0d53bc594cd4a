"""Tasks of the kill sweeps: run the workload and be killed, or judge what it left."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from perdure.artifacts.directory import Directory
from perdure.store.move import StoreTransaction
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from perdure.testing.proxy import wait_until
from perdure.testing.sweep.fork_process import Channel
from tests.crash.support import planted_bugs
from tests.crash.support.kill_points import arm_everything
from tests.crash.support.session_workload import MOVES, WorkloadSession, folder_of, session_rows
from tests.crash.support.verdict import (
    Verdict,
    compare,
    continue_session,
    fingerprint,
    inspect,
    integrity_problems,
    judge_safely,
    merge,
    verdict,
)
from tests.store_copy import copy_store

FEW = 5


def measure_workload() -> dict[str, Any]:
    """The rows before the first move and after each, and the answer of each move, without a kill."""
    with open_store("memory:", clock=ManualClock()) as store, tempfile.TemporaryDirectory() as folder:
        work = WorkloadSession(store, "trial-0", Directory(Path(folder)))
        rows, answers = [fingerprint(store.read_now(session_rows, work.id))], []
        for move in MOVES.values():
            answers.append(work.apply(move))
            rows.append(fingerprint(store.read_now(session_rows, work.id)))
    return {"states": rows, "answers": answers, "few": FEW}


def run_workload(
    channel: Channel,
    *,
    fatal: int,
    plant: str | None,
    target: str,
    id: str,
    folder: str,
    template: str | None = None,
    few: bool = False,
    whose: str = "own",
) -> dict[str, Any]:
    """Run the whole workload, or its first few moves. With a template, opening the store is not swept."""
    if template is not None:
        copy_store(template, target)
    counter = arm_everything(channel, fatal)
    planted_bugs.plant(plant)
    if template is None:
        counter.counting = True
    store = open_store(target, clock=ManualClock())
    work = WorkloadSession(store, id, folder_of(store, Path(folder)))
    counter.counting = True
    for name, move in list(MOVES.items())[: FEW if few else None]:
        answer = work.apply(move)
        channel.send(ack={"move": name, "answer": answer, "whose": whose})
    store.close()
    counter.counting = False
    return {"moments": counter.moments}


def judge_session(
    channel: object,
    *,
    acks: list[dict[str, Any]],
    measure: dict[str, Any],
    target: str,
    id: str,
    folder: str,
    **_: Any,
) -> Verdict:
    """Open what a killed process left, as the next process does, and compare it with an undisturbed run."""

    def judge() -> Verdict:
        found = verdict(lost=_answered(acks, measure["answers"]))
        with opened_by_the_next_process(target, id) as store:
            directory = folder_of(store, Path(folder))
            merge(found, store.read_now(examine_session, id, directory, measure["states"], len(acks)))
            merge(found, verdict() if any(found.values()) else continue_session(store, id))
        if ":" not in target:
            found["broken"] += integrity_problems(Path(target))
        return found

    return judge_safely(judge)


@contextmanager
def opened_by_the_next_process(target: str, name: str) -> Iterator[Store]:
    """The store as the next process finds it. One on PostgreSQL stays open here for the next trial: it holds no state
    of its own, and connecting takes time."""
    if not target.startswith("postgresql:"):
        with open_store(target, clock=ManualClock()) as store:
            yield store
        return
    url = target.partition("?")[0]
    if url not in _open:
        while _open:  # of an earlier sweep, or of a trial with a database of its own
            earlier, line = _open.popitem()[1]
            earlier.close()
            line.close()
        _open[url] = open_store(url, clock=ManualClock(), connections=1), psycopg.connect(url, autocommit=True)
    store, db = _open[url]
    question = "select count(*) from pg_stat_activity where application_name = %s"  # its last commit may still land
    wait_until(lambda: db.execute(question, [name]).fetchall() == [(0,)], "the server has ended the connection")
    yield store


_open: dict[str, tuple[Store, psycopg.Connection[Any]]] = {}


def examine_session(
    tx: StoreTransaction, id: str, directory: Directory, states: list[dict[str, str]], acks: int
) -> Verdict:
    """A session in one read: as expected, and consistent in itself."""
    return merge(compare(fingerprint(session_rows(tx, id)), states, acks), inspect(tx, id, directory))


def _answered(acks: list[dict[str, Any]], answers: list[Any]) -> list[str]:
    """An answer that differs from the undisturbed one reports something that is not there."""
    return [
        f"{ack['move']} was answered with {ack['answer']!r}, and {answer!r} is right"
        for ack, answer in zip(acks, answers, strict=False)
        if ack["answer"] != answer
    ]


def make_store(channel: Channel, *, target: str) -> None:
    """Create an empty store and close it."""
    open_store(target, clock=ManualClock()).close()
