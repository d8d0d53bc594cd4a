"""Tasks of the full-disk tests: a store fills a real, small disk, and works again when there is room."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure.control.doctor.examination import examine as examine_store
from perdure.domain.lease import Holder
from perdure.errors import PerdureError, StoreFull
from perdure.store.databases.sqlite.location import Reserve
from perdure.store.inspection import read_access, survey
from perdure.store.moves import checkpoint, event, meta
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from perdure.testing.sweep.fork_process import Channel
from tests.crash.support.power_loss_tasks import begin, numbers
from tests.crash.support.small_disk import mount_memory
from tests.crash.support.verdict import examine

SIZE = 12 << 20


def fill(channel: Channel, *, folder: str, files: bool) -> dict[str, Any]:
    """Fill the disk, get a clear error, free the reserve for housekeeping, then get room and continue."""
    if why := mount_memory(Path(folder), SIZE):
        return {"why": why}
    target = f"files:{folder}/store" if files else f"{folder}/perdure.db"
    store = open_store(target, clock=ManualClock())
    (holder,) = begin(store, ("first",))
    ballast = Path(folder, "ballast")
    ballast.write_bytes(bytes(5 << 20))
    acknowledged, found = _until_refused(store, holder)
    if not files:
        found += _housekeeping(store)
    store.close()
    ballast.unlink()
    with open_store(target, clock=ManualClock()) as store:
        if (there := store.read_now(numbers, holder.uid)) != acknowledged:
            found.append(f"acknowledged {acknowledged}, there is {there}")
        store.write_now(event.append(holder, "note", {"n": 1000}))
        for sentences in store.read_now(examine, holder.uid).values():
            found += sentences
        if store.folder is not None and not files:
            found += [] if (store.folder / "reserve").stat().st_size == Reserve.SIZE else ["there is no new reserve"]
    return {"why": None, "found": found, "taken": len(acknowledged)}


def open_full(channel: Channel, *, folder: str) -> dict[str, Any]:
    """Inspect a store and do housekeeping where nothing can be written, without a reserve and with one."""
    if why := mount_memory(Path(folder), SIZE):
        return {"why": why}
    target, ballast = f"{folder}/perdure.db", Path(folder, "ballast")
    reserve = Reserve(Path(folder, "perdure.db.d"))
    with open_store(target, clock=ManualClock()) as store:
        begin(store, ("first",))
    reserve.spend()
    _fill(ballast)
    found = [
        f"without a reserve: {one!r}" for one in (_opened(target), _inspected(target)) if type(one) is not StoreFull
    ]
    found += [f"advice {said}" for said in _advice(target) if "right to write" in said or "database is up" in said]
    ballast.unlink()
    with open_store(target, clock=ManualClock()):
        found += [] if reserve.path.stat().st_size == Reserve.SIZE else ["no reserve was made"]
    _fill(ballast)
    found += [f"with a reserve: {error!r}" for error in (_inspected(target), _opened(target)) if error is not None]
    found += ["the reserve was not freed"] if reserve.path.exists() else []
    ballast.unlink()
    with open_store(target, clock=ManualClock()):
        found += [] if reserve.path.stat().st_size == Reserve.SIZE else ["no reserve was made again"]
    return {"why": None, "found": found}


def _fill(ballast: Path) -> None:
    """Leave no room for a single page."""
    with open(ballast, "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def _inspected(target: str) -> PerdureError | None:
    try:
        with read_access.read_store(read_access.locate_store(target)) as found:
            survey.survey(found.tx)
    except PerdureError as error:
        return error
    return None


def _opened(target: str) -> PerdureError | None:
    try:
        with open_store(target, clock=ManualClock()) as store:
            store.write_now(checkpoint.delete_all())
            store.write_now(meta.put("housekeeping", "done"))
    except PerdureError as error:
        return error
    return None


def _advice(target: str) -> list[str]:
    return [finding.do for finding in examine_store(target).findings]


def _until_refused(store: Store, holder: Holder) -> tuple[list[int], list[str]]:
    """Large moves until there is no room for one, then smaller ones until there is no room at all."""
    taken, number = list[int](), 0
    for size in (200_000, 20_000, 0):
        for _ in range(1000):
            number += 1
            try:
                store.write_now(event.append(holder, "note", {"n": number, "text": "t" * size}))
                taken.append(number)
            except StoreFull:
                break
            except PerdureError as error:
                return taken, [f"{error!r} instead of StoreFull"]
        else:
            if size:
                return taken, ["the disk is never full"]
    return taken, [] if len(taken) > 10 else [f"only {taken} were taken"]


def _housekeeping(store: Store) -> list[str]:
    """With the reserve freed there is room for the moves that make room."""
    assert store.folder is not None
    reserve = Reserve(store.folder)
    if not reserve.path.exists():
        return ["there is no reserve"]
    reserve.spend()
    try:
        store.write_now(checkpoint.delete_all())
        store.write_now(meta.put("housekeeping", "done"))
    except PerdureError as error:
        return [f"housekeeping: {error!r}, with {os.statvfs(store.folder).f_bavail} blocks"]
    return []
