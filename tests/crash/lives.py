"""The tasks of the kill sweeps: live a life and be killed, or look at what a life left."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from perdure.artifacts.directory import Directory
from perdure.store.move import Transaction
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from perdure.testing.proxy import wait_until
from perdure.testing.sweep.fork_process import Voice
from tests.crash import planted
from tests.crash.judge import Verdict, careful, compare, go_on, holds_together, inspect, merge, seal, verdict
from tests.crash.kill import Countdown
from tests.crash.workload import MOVES, Life, folder_of, picture

FEW = 5


def measured() -> dict[str, Any]:
    """How the life looks before its first move and after each, and what each answers, on a store that is not killed."""
    with open_store("memory:", clock=ManualClock()) as store, tempfile.TemporaryDirectory() as folder:
        life = Life(store, "trial-0", Directory(Path(folder)))
        looks, answers = [seal(store.read_now(picture, life.id))], []
        for move in MOVES.values():
            answers.append(life.live(move))
            looks.append(seal(store.read_now(picture, life.id)))
    return {"looks": looks, "answers": answers, "few": FEW}


def live(
    voice: Voice,
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
    """Live the whole life, or the few moves of its beginning. With a template, opening is not part of it."""
    countdown = Countdown(voice, fatal)
    if template is not None:
        shutil.copy(template, target)
    countdown.arm()
    planted.plant(plant)
    if template is None:
        countdown.start()
    store = open_store(target, clock=ManualClock())
    life = Life(store, id, folder_of(store, Path(folder)))
    countdown.start()
    for name, move in list(MOVES.items())[: FEW if few else None]:
        answer = life.live(move)
        voice.say(ack={"move": name, "answer": answer, "whose": whose})
    store.close()
    countdown.stop()
    return {"moments": countdown.moments}


def judge_life(
    voice: object,
    *,
    acks: list[dict[str, Any]],
    measure: dict[str, Any],
    target: str,
    id: str,
    folder: str,
    **_: Any,
) -> Verdict:
    """Open what a killed process left, as the next process does, and compare it with an undisturbed life."""

    def look() -> Verdict:
        found = verdict(lost=_answered(acks, measure["answers"]))
        with next_process(target, id) as store:
            directory = folder_of(store, Path(folder))
            merge(found, store.read_now(look_at, id, directory, measure["looks"], len(acks)))
            merge(found, verdict() if any(found.values()) else go_on(store, id))
        if ":" not in target:
            found["broken"] += holds_together(Path(target))
        return found

    return careful(look)


@contextmanager
def next_process(target: str, name: str) -> Iterator[Store]:
    """The store as whoever comes after finds it. One on PostgreSQL stays open here for the next trial: it holds nothing
    of its own, and connecting is what takes time."""
    if not target.startswith("postgresql:"):
        with open_store(target, clock=ManualClock()) as store:
            yield store
        return
    url = target.partition("?")[0]
    if url not in _open:
        _open[url] = open_store(url, clock=ManualClock(), connections=1), psycopg.connect(url, autocommit=True)
    store, db = _open[url]
    question = "select count(*) from pg_stat_activity where application_name = %s"  # its last commit may still land
    wait_until(lambda: db.execute(question, [name]).fetchall() == [(0,)], "the server has noticed the death")
    yield store


_open: dict[str, tuple[Store, psycopg.Connection[Any]]] = {}


def look_at(tx: Transaction, id: str, directory: Directory, looks: list[dict[str, str]], acks: int) -> Verdict:
    """A life in one look: as it should look, and whole in itself."""
    return merge(compare(seal(picture(tx, id)), looks, acks), inspect(tx, id, directory))


def _answered(acks: list[dict[str, Any]], answers: list[Any]) -> list[str]:
    """An answer that differs from the undisturbed one tells of something that is not there."""
    return [
        f"{ack['move']} was answered with {ack['answer']!r}, and {answer!r} is right"
        for ack, answer in zip(acks, answers, strict=False)
        if ack["answer"] != answer
    ]


def make_store(voice: Voice, *, target: str) -> None:
    """An empty store, closed in order."""
    open_store(target, clock=ManualClock()).close()
