"""Two workers on one session: the first is stopped, the second takes over, and the first continues."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from perdure.testing.sweep.fork_server import ChildProcess, ProcessResult
from perdure.testing.sweep.server_pool import TrialServers
from perdure.testing.sweep.sweep import Sweep, TrialContext
from tests.ledger.support import process_setup

SETTLING = {
    "effect.acknowledged",
    "effect.unknown",
    "effect.late_outcome",
    "effect.absent",
    "effect.failed",
    "wait.resolved",
    "effect.ended",
}
TAKEN = 17  # the kill point at which a process that takes a lease by force has it, and has done nothing else
TAKING = ("lease.taken_over", "lease.acquired")
PATIENCE = 0.4
LONGEST = (
    2.0  # a thread of the first worker may have been stopped with the database lock; then no process gets the lease
)
# The deadline was checked, and the tool begins: there only `inflight` and a check of the process help. A writer that
# has answered is stopped together with the thread that got the answer, which may be at that point.
WINDOW = {"act.begun", "answer.after"}
INSIDE = {"move.before", "move.after", "commit.before"}  # it holds the database lock: no process can take over


class StopResult(msgspec.Struct):
    """What happened after a stop."""

    where: str
    first: ProcessResult
    second: ProcessResult
    refusals: list[dict[str, Any]]
    complaints: list[str]
    verdicts: int


def complaints_of(results: list[StopResult]) -> list[str]:
    return [line for result in results for line in result.complaints]


def stop_worker(
    sweep: Sweep, servers: TrialServers, point: int, *, lease: str = "15s", forced: bool = False,
    second_stop: int = 0, plant: str = "", alone: bool = False, namesakes: bool = False,
) -> StopResult | None:  # fmt: skip
    """Stop the first worker at a point, let a second one take over, resume the first; then judge. None: too late.

    The second takes over by force, or when the lease has ended. With `second_stop` it stops too, until the first has
    ended: the old holder then moves while the new one is alive and has not done anything yet. With `alone` there is no
    person whom the second could ask. As `namesakes` both have the same host name, process number and start time.
    """
    with TrialContext(sweep) as context:
        environment = {process_setup.PLANT: plant} | ({process_setup.NAMESAKES: "1"} if namesakes else {})
        first = context.begin(servers.forking, environment=environment, lease=lease, fatal=point, how="stop")
        where = first.wait_for("stopped")
        if where is None:
            return None
        first.wait_stopped()
        refusals: list[dict[str, Any]] = []
        second_environment = environment | {process_setup.NOTED: "1"} | ({process_setup.FORCED: "1"} if forced else {})
        more = {"lease": lease, "fatal": second_stop, "how": "stop"}
        more |= {"script": f"{process_setup.__name__}:run_without_person"} if alone else {}
        has_lease = lambda: where in INSIDE or bool(noted(sweep.sink.log(context.sink_run), "taken"))  # noqa: E731
        second = take_over(
            lambda: context.begin(servers.second, environment=second_environment, **more), has_lease, refusals
        )
        sweep.sink.run(context.sink_run).note(continued=first.pid)
        first.resume()
        first_end = first.wait()
        second.process.resume()
        second_end = second.wait()
        last = context.run(servers.second, environment=environment, times=2)
        sweep.judge_trial(context.sink_run, where, 1, 0, last, alive=True)
        log = sweep.sink.log(context.sink_run)
        verdicts = sum("verdict" in line.get("note", {}) for line in log)
        complaints = _complaints(log, first, point, where, last, forced=forced)
        return StopResult(where, first_end, second_end, refusals, complaints, verdicts)


class ProcessWatch:
    """Waits for a process in a thread of its own: it may end, stop, or have to wait for the other worker."""

    def __init__(self, process: ChildProcess) -> None:
        self.process = process
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        if self.process.wait_for("stopped") in INSIDE:
            self.process.wait_stopped()
            self.process.resume()  # it holds the database lock: the other could only wait for it

    @property
    def is_over(self) -> bool:
        """Whether it has ended or stopped."""
        return not self._thread.is_alive()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def wait(self) -> ProcessResult:
        self._thread.join()
        self.process.resume()
        return self.process.wait()


def take_over(
    begin: Callable[[], ChildProcess], has_lease: Callable[[], bool], refusals: list[dict[str, Any]]
) -> ProcessWatch:
    """Start the second worker, again and again until it gets the lease, and give it time to do what it can."""
    while True:
        second = ProcessWatch(begin())
        until = time.monotonic() + LONGEST
        while not (second.is_over or has_lease()) and time.monotonic() < until:
            second.join(PATIENCE / 20)
        second.join(PATIENCE)
        ended = second.process.ended
        end = ended.result["ends"][-1] if ended is not None and ended.result else None
        if not (isinstance(end, dict) and end["refused"] == "lease-held"):
            return second
        refusals.append(end)


def _complaints(
    log: list[dict[str, Any]], first: ChildProcess, point: int, where: str, last: ProcessResult, *, forced: bool
) -> list[str]:
    """The first worker must neither act nor move once another holds the lease; it may still record an outcome."""
    found: list[str] = []
    ended = first.ended
    if ended is not None and ended.error:
        found.append(f"stopped at {where}, and ended with {ended.error.splitlines()[-1]}")
    acted = _acts_without_lease(log, first.pid, (last.result or {"ledger": {}})["ledger"].get("effects", []))
    if acted and not forced and where not in WINDOW | INSIDE and not _was_acting(ended, point):
        found.append(f"stopped at {where}, and acted afterwards: {acted}")
    logs = (last.result or {"ledger": {"events": []}})["ledger"].get("events", [])
    moves = [moved for events in logs if (moved := _moved_without_lease(events))]
    return found + [f"stopped at {where}, and moved afterwards: {moved}" for moved in moves]


def _acts_without_lease(log: list[dict[str, Any]], pid: int, effects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a process posted after it continued, for a session whose lease another process had taken by then.

    A parent and its child have a lease each: the other process may have one of them and not yet the other.
    """
    session_of = {effect["key"]: effect["session"] for effect in effects}
    taken = {log[at]["note"]["taken"]: at for at in reversed(noted(log, "taken"))}
    continued = max(noted(log, "continued"), default=0)

    def lost_at(line: dict[str, Any]) -> int:
        session = session_of.get(line["key"] or line["marker"])
        return taken.get(session, len(log)) if session else min(taken.values(), default=len(log))

    posted = [(at, line) for at, line in enumerate(log) if line["what"] == "posted" and line["process"] == str(pid)]
    return [line for at, line in posted if at > max(continued, lost_at(line))]


def _was_acting(ended: ProcessResult | None, point: int) -> bool:
    """Whether an act was under way at the stop: beside another one, or beside a thread that renewed the lease.

    It is under way from `act.before` on, because the deadline is checked right after it; not at that point itself.
    """
    moments = [] if ended is None or not ended.result else ended.result["moments"][:point]
    acts = [label for label in moments if label in ("act.before", "act.begun", "act.after")]
    at_check = acts[-1:] == ["act.before"] and moments[-1] != "act.before"
    return at_check or acts.count("act.begun") > acts.count("act.after")


def _moved_without_lease(events: list[list[str]]) -> list[str]:
    """The moves of a worker that held the lease before and does not hold it any more."""
    holder, before, moved = "", set[str](), list[str]()
    for kind, actor in events:
        if kind in TAKING:
            holder = actor
            before.add(actor)
        elif actor != holder and actor in before and kind not in SETTLING:
            moved.append(kind)
    return moved


def noted(log: list[dict[str, Any]], word: str) -> list[int]:
    """Where in a log this word was noted."""
    return [n for n, line in enumerate(log) if line["what"] == "noted" and word in line["note"]]
