"""Two workers on one session: the first is stopped, the second takes over, and the first goes on."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

from perdure.testing.forks import Ended, ForkServer, Life
from perdure.testing.sweep import LIVE, Place, Sweep
from tests.ledger import scenes

SETTLING = {"effect.acknowledged", "effect.unknown", "effect.late_outcome", "effect.absent", "effect.failed",
            "wait.resolved", "effect.overrun"}  # fmt: skip
TAKEN = ("lease.taken_over", "lease.acquired")
WINDOW = {"act.begun"}  # the deadline was looked at, and the tool begins: only `inflight` and a look at the process help


class Trial(msgspec.Struct):
    """What came of a stop."""

    where: str
    first: Ended
    second: Ended
    refusals: list[dict[str, Any]]
    complaints: list[str]


def stop(
    sweep: Sweep, one: ForkServer, other: ForkServer, fatal: int, *, lease: str = "15s", forced: bool = False,
    second_stop: int = 0, plant: str = "",
) -> Trial | None:  # fmt: skip
    """Stop the first worker at a moment, let a second take over, let the first go on; then judge. None: too late.

    The second takes over by force, or when the lease has ended. With `second_stop` it stops too, until the first has
    ended: the old holder then moves while the new one is alive and has not done anything yet.
    """
    with Place(sweep) as place:
        template, environment = place.told.pop("template"), {scenes.PLANT: plant}
        told = place.told | {"environment": environment}
        force = told | {"environment": environment | ({scenes.FORCED: "1"} if forced else {})}
        first = one.begin(LIVE, **told, template=template, lease=lease, fatal=fatal, how="stop")
        where = first.until("stopped")
        if where is None:
            return None
        first.wait_stopped()
        refusals: list[dict[str, Any]] = []
        second = take_over(other, force | {"lease": lease, "fatal": second_stop, "how": "stop"}, refusals)
        if second_stop and second.until("stopped") is not None:
            second.wait_stopped()
        elif not second_stop:
            _patiently(second)
        sweep.sink.run(place.run).note(continued=first.pid)
        first.go_on()
        first_end = first.end()
        second.go_on()
        second_end = second.end()
        last = other.run(LIVE, **told, times=2)
        sweep.conclude(place.run, where, 1, 0, last, alive=True)
        complaints = _complaints(sweep.sink.log(place.run), first, where, last, forced=forced)
        return Trial(where, first_end, second_end, refusals, complaints)


def take_over(other: ForkServer, told: dict[str, Any], refusals: list[dict[str, Any]]) -> Life:
    """Begin the second worker, again and again until the lease lets it in; the refusals are kept."""
    while True:
        second = other.begin(LIVE, **told)
        listener = threading.Thread(target=second.until, args=("stopped",), daemon=True)
        listener.start()
        listener.join(0.4)
        ended = second.ended
        if ended is None or ended.error or not ended.result:
            listener.join()
            return second
        said = ended.result["ends"][-1]
        if not (isinstance(said, dict) and said["refused"] == "lease-held"):
            return second
        refusals.append(said)


def _patiently(second: Life) -> None:
    """The second may have to wait for the first: for its lock, or for the end of what it began."""


def _complaints(log: list[dict[str, Any]], first: Life, where: str, last: Ended, *, forced: bool) -> list[str]:
    """The first worker must neither act nor move once another holds the lease; what it knows it may still say."""
    found: list[str] = []
    continued = next(n for n, line in enumerate(log) if line["what"] == "noted" and "continued" in line["note"])
    acted = [line for line in log[continued:] if line.get("process") == str(first.pid) and line["what"] == "posted"]
    if acted and not forced and where not in WINDOW:
        found.append(f"stopped at {where}, and acted afterwards: {acted}")
    for events in (last.result or {"ledger": {"events": []}})["ledger"].get("events", []):
        holders = [n for n, (kind, _) in enumerate(events) if kind in TAKEN]
        old = events[holders[0]][1] if holders else ""
        since = next((n for n in holders if events[n][1] != old), len(events))
        moved = [kind for kind, actor in events[since:] if actor == old and kind not in SETTLING]
        if moved:
            found.append(f"stopped at {where}, and moved afterwards: {moved}")
    return found
