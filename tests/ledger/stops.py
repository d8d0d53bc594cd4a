"""Two workers on one session: the first is stopped, the second takes over, and the first goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import Any, Self

import msgspec

from perdure.testing.sweep.fork_process import FORKING
from perdure.testing.sweep.fork_server import Ended, ForkServer, Life, fork_servers
from perdure.testing.sweep.sweep import LIVE, Place, Sweep
from tests.ledger import scenes
from tests.ledger.tables import show

SETTLING = {"effect.acknowledged", "effect.unknown", "effect.late_outcome", "effect.absent", "effect.failed",
            "wait.resolved", "effect.ended"}  # fmt: skip
TAKEN = 17  # the moment of a life that takes a lease by force at which it has it, and nothing else is done
TAKING = ("lease.taken_over", "lease.acquired")
PATIENCE = 0.4
LONGEST = 2.0  # a thread of the first may have been stopped with the database's lock; then nobody gets the lease
# The deadline was looked at, and the tool begins: there only `inflight` and a look at the process help. A writer that
# has answered is stopped together with whoever heard the answer, who may be just there.
WINDOW = {"act.begun", "answer.after"}
INSIDE = {"move.before", "move.after", "commit.before"}  # it holds the database's lock: nobody takes over from it


class Pairs:
    """Pairs of fork servers: one for the first worker, one for the second."""

    def __init__(self, apps: Sequence[str], count: int = 2) -> None:
        self.count = count
        self._apps = apps
        self._stack = ExitStack()
        self._free: SimpleQueue[tuple[ForkServer, ForkServer]] = SimpleQueue()

    def __enter__(self) -> Self:
        servers = self._stack.enter_context(fork_servers(*[FORKING] * 2 * self.count, apps=self._apps))
        for pair in zip(servers[::2], servers[1::2], strict=True):
            self._free.put(pair)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def take(self) -> Iterator[tuple[ForkServer, ForkServer]]:
        pair = self._free.get()
        try:
            yield pair
        finally:
            self._free.put(pair)


def sweep_stops(sweep: Sweep, pairs: Pairs, numbers: list[int], *, what: str, **how: Any) -> list[Trial]:
    """Stop a program at moments given by number, several pairs at a time."""
    begun = time.monotonic()
    sweep.report.moments = len(sweep.measure())

    def trial(fatal: int) -> Trial | None:
        with pairs.take() as (one, other):
            return stop(sweep, one, other, fatal, **how)

    with ThreadPoolExecutor(pairs.count) as pool:
        trials = list(pool.map(trial, numbers))
    sweep.report.seconds += time.monotonic() - begun
    if not how.get("plant"):
        show(f"{sweep.report.name}, {what}", sweep.report, kind="stops")
    return [one for one in trials if one is not None]


class Trial(msgspec.Struct):
    """What came of a stop."""

    where: str
    first: Ended
    second: Ended
    refusals: list[dict[str, Any]]
    complaints: list[str]
    verdicts: int


def stop(
    sweep: Sweep, one: ForkServer, other: ForkServer, fatal: int, *, lease: str = "15s", forced: bool = False,
    second_stop: int = 0, plant: str = "", alone: bool = False, namesakes: bool = False,
) -> Trial | None:  # fmt: skip
    """Stop the first worker at a moment, let a second take over, let the first go on; then judge. None: too late.

    The second takes over by force, or when the lease has ended. With `second_stop` it stops too, until the first has
    ended: the old holder then moves while the new one is alive and has not done anything yet. With `alone` there is
    nobody whom the second could ask. As `namesakes` both have the same host name, process number and start time.
    """
    with Place(sweep) as place:
        template, environment = place.told.pop("template"), {scenes.PLANT: plant}
        environment |= {scenes.NAMESAKES: "1"} if namesakes else {}
        told = place.told | {"environment": environment}
        force = told | {"environment": environment | {scenes.NOTED: "1"} | ({scenes.FORCED: "1"} if forced else {})}
        force |= {"script": f"{scenes.__name__}:once"} if alone else {}
        first = one.begin(LIVE, **told, template=template, lease=lease, fatal=fatal, how="stop")
        where = first.until("stopped")
        if where is None:
            return None
        first.wait_stopped()
        refusals: list[dict[str, Any]] = []
        force |= {"lease": lease, "fatal": second_stop, "how": "stop"}
        has_lease = lambda: where in INSIDE or bool(_noted(sweep.sink.log(place.run), "taken"))  # noqa: E731
        second = take_over(other, force, has_lease, refusals)
        sweep.sink.run(place.run).note(continued=first.pid)
        first.go_on()
        first_end = first.end()
        second.life.go_on()
        second_end = second.end()
        last = other.run(LIVE, **told, times=2)
        sweep.conclude(place.run, where, 1, 0, last, alive=True)
        log = sweep.sink.log(place.run)
        verdicts = sum("verdict" in line.get("note", {}) for line in log)
        complaints = _complaints(log, first, fatal, where, last, forced=forced)
        return Trial(where, first_end, second_end, refusals, complaints, verdicts)


class Listening:
    """Listens to a life beside everything else: it may end, stop, or have to wait for the other worker."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        if self.life.until("stopped") in INSIDE:
            self.life.wait_stopped()
            self.life.go_on()  # it holds the database's lock: the other could only wait for it

    @property
    def is_over(self) -> bool:
        """It has ended or stopped."""
        return not self._thread.is_alive()

    def listen(self, seconds: float) -> None:
        self._thread.join(seconds)

    def end(self) -> Ended:
        self._thread.join()
        self.life.go_on()
        return self.life.end()


def take_over(
    other: ForkServer, told: dict[str, Any], has_lease: Callable[[], bool], refusals: list[dict[str, Any]]
) -> Listening:
    """Begin the second worker, again and again until the lease lets it in, and give it time to do what it can."""
    while True:
        second = Listening(other.begin(LIVE, **told))
        until = time.monotonic() + LONGEST
        while not (second.is_over or has_lease()) and time.monotonic() < until:
            second.listen(PATIENCE / 20)
        second.listen(PATIENCE)
        ended = second.life.ended
        said = ended.result["ends"][-1] if ended is not None and ended.result else None
        if not (isinstance(said, dict) and said["refused"] == "lease-held"):
            return second
        refusals.append(said)


def _complaints(
    log: list[dict[str, Any]], first: Life, fatal: int, where: str, last: Ended, *, forced: bool
) -> list[str]:
    """The first worker must neither act nor move once another holds the lease; what it knows it may still say."""
    found: list[str] = []
    ended = first.ended
    if ended is not None and ended.error:
        found.append(f"stopped at {where}, and ended with {ended.error.splitlines()[-1]}")
    acted = _acts_without_lease(log, first.pid, (last.result or {"ledger": {}})["ledger"].get("effects", []))
    if acted and not forced and where not in WINDOW | INSIDE and not _was_acting(ended, fatal):
        found.append(f"stopped at {where}, and acted afterwards: {acted}")
    logs = (last.result or {"ledger": {"events": []}})["ledger"].get("events", [])
    moves = [moved for events in logs if (moved := _moved_without_lease(events))]
    return found + [f"stopped at {where}, and moved afterwards: {moved}" for moved in moves]


def _acts_without_lease(log: list[dict[str, Any]], pid: int, effects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a process posted after it continued, for a session whose lease another one had taken by then.

    A parent and its child have a lease each: the other process may have one of them and not yet the other.
    """
    session_of = {effect["key"]: effect["session"] for effect in effects}
    taken = {log[at]["note"]["taken"]: at for at in reversed(_noted(log, "taken"))}
    continued = max(_noted(log, "continued"), default=0)

    def lost_at(line: dict[str, Any]) -> int:
        session = session_of.get(line["key"] or line["marker"])
        return taken.get(session, len(log)) if session else min(taken.values(), default=len(log))

    posted = [(at, line) for at, line in enumerate(log) if line["what"] == "posted" and line["process"] == str(pid)]
    return [line for at, line in posted if at > max(continued, lost_at(line))]


def _was_acting(ended: Ended | None, fatal: int) -> bool:
    """Whether an act was under way at the stop: beside another one, or beside a thread that renewed the lease."""
    moments = [] if ended is None or not ended.result else ended.result["moments"][:fatal]
    return moments.count("act.begun") > moments.count("act.after")


def _moved_without_lease(events: list[list[str]]) -> list[str]:
    """The moves of whoever held the lease before and does not hold it now."""
    holder, before, moved = "", set[str](), list[str]()
    for kind, actor in events:
        if kind in TAKING:
            holder = actor
            before.add(actor)
        elif actor != holder and actor in before and kind not in SETTLING:
            moved.append(kind)
    return moved


def _noted(log: list[dict[str, Any]], word: str) -> list[int]:
    """Where in a log this word was noted."""
    return [n for n, line in enumerate(log) if line["what"] == "noted" and word in line["note"]]
