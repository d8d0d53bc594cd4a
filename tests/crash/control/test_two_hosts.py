"""Two hosts share a store. One is cut off: its sessions are taken over when its leases end, and it acts no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.store.moves import event, session
from perdure.store.moves.session import NewSession
from perdure.store.store import Store, open_store
from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import wait_until
from tests.crash.control.support.app import soak_charges
from tests.crash.control.support.hosts import Host, skip_without_namespaces
from tests.figures import record

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

LEASE = 2.0
CHARGES = 40


def start(store: Store, *numbers: int) -> None:
    for n in numbers:
        bound = soak_charges.bind(n, CHARGES)
        new = NewSession(id=f"s-{n}", program=bound.program.name, arguments=bound.arguments)
        store.write_now(session.create(new, by="ada"))


def holders(tx: Any) -> dict[str, str]:
    """The host that holds each running session."""
    rows = session.page(tx, status="running")
    return {row.id: (row.lease_holder or "").partition("@")[2].partition(":")[0] for row in rows}


def is_done(store: Store, count: int) -> bool:
    return store.read_now(session.count) == {"done": count}


def acts_without_the_lease(tx: Any, uid: str) -> list[str]:
    """Dispatches by a process that did not hold the session."""
    holder, found, after = "", [], 0
    while page := event.after(tx, uid, after):
        for one in page:
            if one.kind in ("lease.acquired", "lease.taken_over"):
                holder = one.actor
            elif one.kind == "effect.dispatched" and one.actor != holder:
                found.append(f"{one.actor} dispatched event {one.number}, and {holder} held the session")
        after = page[-1].number
    return found


def test_host_that_is_cut_off_loses_its_sessions_and_acts_no_more(victim: PostgresServer, tmp_path: Path) -> None:
    skip_without_namespaces()
    url = victim.create_database()
    with (
        Sink(tmp_path / "sink") as sink,
        open_store(url) as store,
        Host("north", tmp_path, url, sink.url, lease=LEASE) as north,
    ):
        start(store, *range(3))
        wait_until(lambda: list(store.read_now(holders).values()) == ["north"] * 3, "north runs them")
        with Host("south", tmp_path, url, sink.url, lease=LEASE):
            wait_until(lambda: len(sink.log()) > 10, "north has acted")
            north.cut()
            cut_at = store.clock.now()
            wait_until(lambda: set(store.read_now(holders).values()) == {"south"}, "south has them")
            seconds = (store.clock.now() - cut_at) / 1e6
            before = len(sink.log())
            wait_until(lambda: len(sink.log()) > before + 3, "south acts")
            north.heal()
            wait_until(lambda: is_done(store, 3), "all are done")
        start(store, 3)  # only north is left
        wait_until(lambda: is_done(store, 4), "north has come back")
        uids = [row.uid for row in store.read_now(session.page)]
        assert [one for uid in uids for one in store.read_now(acts_without_the_lease, uid)] == []
        assert sorted(sink.lasting().values()) == [1] * (4 * CHARGES), north.log_text()
    record(
        "two hosts, one cut off", ("lease", "taken over after", "doubled"), ("PostgreSQL", "2 s", f"{seconds:.1f} s", 0)
    )
