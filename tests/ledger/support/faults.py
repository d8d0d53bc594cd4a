"""The faults of the sweeps, and at which kill points each is tried: one runner for every cell of the matrix.

What is outside is counted at the sink. For `escalate` a simulated person answers by what the sink shows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool, TrialServers
from perdure.testing.sweep.sweep import Sweep, TrialContext
from tests.ledger.support import process_setup, programs
from tests.ledger.support.figures import show
from tests.ledger.support.matrix import label
from tests.ledger.support.stopped_worker import INSIDE, StopResult, complaints_of, noted, stop_worker
from tests.seed import sample

RULES = ("idempotent", "probe", "compensate", "escalate")
LATE = {"fault": "late_cut", "delay": 0.03}
COMMITTED = ("commit.after",)
SHORT = "300ms"
ONE_SERVER = threading.Lock()  # trials that kill the same server take turns
Choice = Callable[[list[str]], Iterable[int]]


def labelled(moments: list[str], *labels: str) -> list[int]:
    """The kill points whose label begins with one of these, by number from 1."""
    return [at for at, label in enumerate(moments, 1) if label.startswith(labels)]


def around_acts(moments: list[str]) -> list[int]:
    return labelled(moments, "act", "probe")


def some(most: int, rest: tuple[str, ...] = ("",)) -> Choice:
    """At most so many points, chosen from the seed: half around acts and probes, half of the rest, by its labels."""

    def choose(moments: list[str]) -> Iterable[int]:
        acts = around_acts(moments)
        others = [at for at in labelled(moments, *rest) if at not in acts]
        chosen = sample(acts, most // 2)
        return sorted({*chosen, *sample(others, most - len(chosen))})

    return choose


def around_commits(most: int) -> Choice:
    """Some points after a commit or its answer, and some around acts; the first ones have no lease to lose."""

    def choose(moments: list[str]) -> Iterable[int]:
        after = labelled(moments, "commit.after", "answer.after")
        return sorted({*sample(after[2:], most // 2), *sample(labelled(moments, "act"), most // 2)})

    return choose


# How many kill points each fault is tried at, on SQLite and on PostgreSQL.
CHOICES: dict[str, tuple[Choice, Choice]] = {
    "killed": (some(16), some(6, COMMITTED)),
    "error after the commit": (some(8), some(3, COMMITTED)),
    "cut after the commit": (some(8), some(3, COMMITTED)),
    "lands late": (some(6, COMMITTED), some(3, COMMITTED)),
    "stopped": (around_commits(4), around_commits(2)),
    "lease lost": (around_commits(4), around_commits(2)),
    "server killed": (lambda _: (), lambda moments: sample(labelled(moments, "commit", "act")[3:-3], 2)),
}


def choice(name: str, column: str, database: str) -> Choice:
    """At which kill points a fault is tried."""
    if (column, database) == ("stopped", "SQLite") and name in RULES:
        return lambda _: sample(range(6, 44), 10)
    if (name, column, database) == ("forked", "killed", "PostgreSQL"):
        return some(8)
    return CHOICES[column][database == "PostgreSQL"]


def sweep_of(name: str, pool: ServerPool, sink: Sink, store: Path | str, **more: Any) -> Sweep:
    """A sweep of a program, whose processes do what their environment asks for (`process_setup`)."""
    script = process_setup.branch if name == "forked" else None
    bound = getattr(programs, name).bind(n=3)
    return Sweep(pool, bound, sink, store, name=name, script=script, **{"setup": process_setup.prepare} | more)


def unchanged_sweep_of(name: str, pool: ServerPool, sink: Sink, store: Path | str, **more: Any) -> Sweep:
    """The same without a setup: recovery runs in a warm process, which is faster."""
    return sweep_of(name, pool, sink, store, **{"setup": None} | more)


def late_sweep_of(name: str, pool: ServerPool, sink: Sink, store: Path | str) -> Sweep:
    """The requests of every tool land late, and recovery waits for them."""
    return sweep_of(name, pool, sink, store, setup=process_setup.be_patient, mode=LATE)


def mostly_reached(report: Report, chosen: int = 0) -> bool:
    """Threads may reach points in another order, so that a few processes end before their point: not many of them."""
    return 4 * report.kills > report.unreached and report.kills + report.unreached >= chosen


def check_cell(
    name: str, column: str, database: str, pool: ServerPool, sink: Sink, store: Path | str,
    server: PostgresServer | None = None,
) -> None:  # fmt: skip
    """Sweep a program with one fault on one database: every effect happens once, and enough was tried."""
    chosen, what = choice(name, column, database), label(name, column, database)
    if column in ("stopped", "lease lost"):
        sweep = sweep_of(name, pool, sink, store)
        how = {"forced": True} if column == "lease lost" else {"lease": SHORT}
        _check_stops(sweep, chosen, what, database, how)
    elif column == "server killed":
        assert server is not None
        sweep = unchanged_sweep_of(name, pool, sink, store)
        sweep.run_trials(chosen, partial(kill_server, sweep, server))
        assert show(what, sweep.report, kind="kills of the server").failures == [], sweep.report.failures
        assert sweep.report.kills > 1
    else:
        least = 16 if (column, database) == ("killed", "SQLite") and name != "forked" else 0
        report = show(what, _killed_sweep(name, column, pool, sink, store).run(choose=chosen))
        assert report.failures == [], report.failures
        assert mostly_reached(report, min(least, report.moments))


def _killed_sweep(name: str, column: str, pool: ServerPool, sink: Sink, store: Path | str) -> Sweep:
    if column == "lands late":
        return late_sweep_of(name, pool, sink, store)
    mode = None if column == "killed" else {"fault": column.split(maxsplit=1)[0]}
    return unchanged_sweep_of(name, pool, sink, store, mode=mode)


def _check_stops(sweep: Sweep, chosen: Choice, what: str, database: str, how: dict[str, Any]) -> None:
    results = stop_workers(sweep, chosen, **how)
    show(what, sweep.report, kind="stops")
    reached = [one for one in results if one is not None]
    assert sweep.report.failures == [], sweep.report.failures
    assert complaints_of(reached) == [], complaints_of(reached)
    assert len(reached) > (len(results) / 2 if database == "SQLite" else 0)


def stop_workers(sweep: Sweep, choose: Choice, **how: Any) -> list[StopResult | None]:
    """Stop a worker at each chosen point and let another one take over. None: it ended before its point."""
    return sweep.run_trials(choose, lambda point, servers: stop_worker(sweep, servers, point, **how))


def kill_server(sweep: Sweep, server: PostgresServer, point: int, servers: TrialServers) -> None:
    """Stop the client, kill the server with all its processes and start it again; then both continue."""
    with ONE_SERVER, TrialContext(sweep) as context:
        client = context.begin(servers.forking, fatal=point, how="stop")
        where = client.wait_for("stopped")
        if where is None:
            return
        client.wait_stopped()
        server.restart()
        client.resume()
        ended = client.wait()
        last = context.run(servers.forking, times=2)
        where = where if ended.error is None else f"{where}: {ended.error}"
        sweep.judge_trial(context.sink_run, where, 1, 0, last)


def change_rule(sweep: Sweep, change: str, plant: str, point: int, servers: TrialServers) -> None:
    """Kill a process with the old code, and let one with the new code recover."""
    with TrialContext(sweep) as context:
        first = context.run(servers.forking, fatal=point)
        environment = {process_setup.CHANGED: change, process_setup.PLANT: plant}
        last = context.run(servers.forking, environment=environment, times=2)
        sweep.judge_trial(context.sink_run, f"{change} after {first.values('last')}", int(first.killed), 0, last)


def vote_in_recovery(sweep: Sweep, point: int, servers: TrialServers) -> int:
    """Kill a process, and let a second one recover until it waits for a person. Stop a third one, which has a person,
    at a point; let a fourth answer what is open then, and resume the third. Returns how many answers the fourth gave.
    """
    with TrialContext(sweep) as context:
        context.run(servers.forking, fatal=labelled(sweep.measure(), "act.after")[0])
        context.run(servers.forking, script=f"{process_setup.__name__}:run_without_person")
        recovery = context.begin(servers.forking, fatal=point, how="stop")
        where = recovery.wait_for("stopped")
        if where is not None:
            recovery.wait_stopped()
            if where not in INSIDE:
                context.run(servers.second, script=f"{process_setup.__name__}:answer_open_waits")
            recovery.resume()
        ended = recovery.wait()
        votes = len(noted(sweep.sink.log(context.sink_run), "voted"))
        last = context.run(servers.second, times=2)
        label = f"a vote at {where}" if ended.error is None else f"a vote at {where}: {ended.error}"
        sweep.judge_trial(context.sink_run, label, int(where is not None), 0, last, alive=True)
        return votes


def fail_commit(sweep: Sweep, kept: str, plant: str, number: int, servers: TrialServers) -> None:
    """Let the n-th commit of a process fail without an answer whether it holds; kill nothing, and run again."""
    with TrialContext(sweep) as context:
        environment = {process_setup.PLANT: plant}
        failing = environment | {process_setup.AMBIGUOUS: f"{number}:{kept}"}
        first = context.run(servers.forking, environment=failing)
        last = context.run(servers.forking, environment=environment, times=2)
        where = f"commit {number}" if first.error is None else f"commit {number}: {first.error.splitlines()[-1]}"
        sweep.judge_trial(context.sink_run, where, 1, 0, last)


def fail_commits(sweep: Sweep, kept: str, plant: str = "", most: int = 1_000) -> int:
    """Let some commits of a process fail in turn, once the store is open; how many commits it has."""

    def choose(moments: list[str]) -> list[int]:
        # The first commit is the barrier that opening makes.
        return sample(range(2, len(labelled(moments, "commit.before")) + 2), most)

    sweep.run_trials(choose, partial(fail_commit, sweep, kept, plant))
    return len(labelled(sweep.measure(), "commit.before"))
