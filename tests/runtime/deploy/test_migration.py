"""`perdure migrate`: as far as the living allow, and no further."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from perdure import Runtime
from perdure.clock import SECOND, SystemClock
from perdure.domain.worker import WorkerRecord
from perdure.errors import ConfigError, IllegalMove, NotFound
from perdure.runtime.deploy.migration import DAY, migrate_store
from perdure.runtime.services.housekeeping import Housekeeping
from perdure.runtime.workers.liveness import locks_of_store
from perdure.store import migrate
from perdure.store.moves import lease, meta, session, worker
from perdure.store.store import open_store
from perdure.store.writer.lock import Presence
from perdure.testing import ManualClock

pytestmark = pytest.mark.databases("sqlite", "postgres")


def steps(target: str) -> list[migrate.Migration]:
    """What this code knows, one step that only adds, and one that older code does not survive."""
    known = migrate.load("postgres" if target.startswith("postgres") else "sqlite")
    version = len(known)
    expand = migrate.Migration(version + 1, "expand", "expand", known[-1].compatible_from, (), None)
    contract = migrate.Migration(version + 2, "contract", "contract", version + 1, (), None)
    return [*known, expand, contract]


def test_current_store_is_not_changed(target: str) -> None:
    open_store(target).close()
    done = migrate_store(target)
    assert done.before == done.after == done.known


def test_older_store_is_migrated(target: str) -> None:
    open_store(target).close()
    known = len(steps(target)) - 2
    done = migrate_store(target, steps(target))
    assert (done.before, done.after) == (known, known + 2)


def test_contract_step_is_postponed_while_an_older_worker_runs(target: str) -> None:
    known = len(steps(target)) - 2
    with open_store(target) as store, locks_of_store(store).enter(store) as me:
        for before in (known, known + 1):
            done = migrate_store(target, steps(target))
            assert (done.before, done.after, done.known) == (before, known + 1, known + 2)
            assert done.waits_for == [f"{me.id} on {me.worker.host}"]
        assert store.read_now(meta.get, "schema_version") == str(known + 1)
    done = migrate_store(target, steps(target))
    assert (done.after, done.waits_for) == (known + 2, [])


def test_needed_step_that_would_break_a_running_worker_is_refused(target: str) -> None:
    *others, contract = steps(target)
    needed = [*others, msgspec.structs.replace(contract, phase="expand")]
    known = len(needed) - 2
    with open_store(target) as store, locks_of_store(store).enter(store) as me:
        for before in (known, known + 1):
            with pytest.raises(IllegalMove, match=f"from version {before} to {known + 1}.* {me.id} on"):
                migrate_store(target, needed)
    assert migrate_store(target, needed).after == known + 2


@pytest.mark.parametrize(("silent_for", "counts"), [(DAY - 60 * SECOND, True), (DAY + 60 * SECOND, False)])
def test_worker_of_unknown_liveness_counts_for_a_day(target: str, silent_for: int, counts: bool) -> None:
    class Earlier(SystemClock):
        def now(self) -> int:
            return super().now() - silent_for

    with open_store(target, clock=Earlier()) as store:
        with locks_of_store(store).enter(store) as me:
            afar = msgspec.structs.replace(
                me.worker, id="w-afar", host="elsewhere", boot_id="another", start_token="of another machine"
            )
        store.write_now(worker.register(afar))
    if counts:
        assert migrate_store(target, steps(target)).waits_for == ["w-afar on elsewhere"]
    else:
        assert migrate_store(target, steps(target)).after == len(steps(target))


def test_worker_of_unknown_liveness_counts_while_it_holds_a_lease(target: str) -> None:
    known = len(steps(target)) - 2
    old = WorkerRecord("w-afar", "elsewhere", "another", 1, "of another machine", known, known, [], 0, 0)
    clock = ManualClock(now=SystemClock().now() - 2 * DAY)
    with open_store(target, clock=clock) as store:
        store.write_now(worker.register(old))
        made = store.write_now(session.create(session.NewSession(id="s", program="p", arguments={}), by="ada"))
        store.write_now(lease.acquire(made.uid, "w-afar@elsewhere:1", nonce="n", ttl=3 * DAY))
    assert migrate_store(target, steps(target)).waits_for == ["w-afar on elsewhere"]


def test_migrate_creates_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        migrate_store(str(tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.databases("memory", "files")
def test_store_in_memory_needs_no_migration(target: str) -> None:
    with pytest.raises(ConfigError, match="needs no migration"):
        migrate_store(target)


async def test_housekeeping_applies_the_contract_step_when_no_older_worker_is_left(target: str) -> None:
    *known, _, contract = steps(target)
    version = len(known)
    last = msgspec.structs.replace(contract, number=version + 1, compatible_from=version)
    with open_store(target) as store:
        runtime = Runtime(store)
        alive = Presence(Path(locks_of_store(store).folder), "w-old")
        row = store.read_now(worker.find, runtime.worker.id)
        assert isinstance(row, WorkerRecord)
        token = row.start_token.split(" ", 1)[1]
        older = {"schema_from": version - 1, "schema_to": version - 1}
        old = {"id": "w-old", "pid": 2**30, "start_token": f"1 {token}"} | older
        store.write_now(worker.register(WorkerRecord(**(row.to_dict() | old))))
        keeper = Housekeeping(runtime)
        keeper.migrations = [*known, last]
        await keeper.look()
        assert store.read_now(meta.get, "schema_version") == str(version)
        alive.close()
        await keeper.look()
        assert store.read_now(meta.get, "schema_version") == str(version + 1)
        runtime.close()
