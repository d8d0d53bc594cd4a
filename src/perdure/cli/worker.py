"""`perdure worker`: a disposable process that runs sessions which are ready, and ends when there is nothing to do."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.command import Shell, command, person

if TYPE_CHECKING:
    from collections.abc import Collection

    from perdure.domain.session import SessionRecord
    from perdure.runtime.runtime import Runtime
    from perdure.store.move import Transaction

LOOK = 1.0  # seconds between looks where nothing wakes it
SOON = 60.0  # seconds; a worker that could end stays for what is due by then
PAGE = 1000


@command
@click.argument("id", required=False)
@click.option("--idle", type=click.FloatRange(0), metavar="SECONDS", help="End after so long with nothing to do.")
@click.option("--at-once", type=click.IntRange(1, 1000), default=4, show_default=True, help="Run so many side by side.")
@person
def worker(shell: Shell, id: str | None, idle: float | None, at_once: int) -> int:
    """Run sessions that are ready, until it is stopped.

    It takes those whose program it knows, and those whose worker died. With ID, only that session and its children; it
    then stays while the session waits for a time. Without, --idle lets it end although a time is due later than in a
    minute, and it says when to start again. Killed anywhere, it loses nothing: another goes on.
    """
    from perdure.cli.opening import acting

    shell.load()

    async def work(runtime: Runtime) -> int:
        me = asyncio.current_task()
        assert me is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
        working = Working(shell, runtime, None if id is None else (await runtime.get(id)).uid, at_once)
        working.tell(f"worker {runtime.worker.name}", "worker.started", worker=runtime.worker.name)
        try:
            await working.until_idle(idle)
        except asyncio.CancelledError:
            await working.stop()
        return 1 if working.failed else 0

    return acting(shell, work)


class Working:
    """One worker's life."""

    def __init__(self, shell: Shell, runtime: Runtime, only: str | None, at_once: int) -> None:
        self.shell = shell
        self.runtime = runtime
        self.only = only
        self.failed = False
        self._at_once = at_once
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._tried: dict[str, int] = {}  # where a session was when it could not be run here
        self._held: dict[str, int] = {}  # when somebody else was found to have it

    async def until_idle(self, idle: float | None) -> None:
        store = self.runtime.store
        quiet_since = store.clock.boot()
        while True:
            seen = store.wakeups.version
            if await self._look() or self._tasks:
                quiet_since = store.clock.boot()
            left = LOOK if idle is None else idle - (store.clock.boot() - quiet_since) / 1_000_000
            if (left <= 0 and not self._tasks) or await self._is_over():
                await self._say_when()
                return
            await self._wait(seen, min(LOOK, max(0.0, left)))

    async def _say_when(self) -> None:
        """Nobody wakes a worker that has ended: say when the next one has something to do."""
        from perdure.cli.plain import span
        from perdure.clock import moment
        from perdure.store import wait

        due = await self.runtime.store.read(wait.next_due)
        if self.only is None and due is not None:
            left = span(max(0, due - self.runtime.store.clock.now()))
            said = f"the next time is due at {moment(due)} (in {left}): start a worker then"
            self.tell(said, "worker.idle", next_due=due)

    def tell(self, line: str, type: str, **about: Any) -> None:
        """One line for a person, or one object for a script."""
        if self.shell.json:
            self.shell.emit({"type": type} | about)
        else:
            self.shell.say(line)

    async def stop(self) -> None:
        """Give back what it has; an act that began is seen through."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _wait(self, seen: int, seconds: float) -> None:
        waiting = asyncio.ensure_future(self.runtime.store.wakeups.wait(seen, None, seconds))
        await asyncio.wait([waiting, *self._tasks.values()], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        self._tasks = {uid: task for uid, task in self._tasks.items() if not task.done()}

    async def _look(self) -> bool:
        """Fire what is due and take what is ready; say whether anything of it keeps this worker."""
        from perdure.domain.worker import Life
        from perdure.runtime.program import PROGRAMS
        from perdure.runtime.tool import TOOLS
        from perdure.store import wait
        from perdure.store import worker as rows

        for due in await self.runtime.store.read(wait.due):
            await self.runtime.fire(due)
        known = {*PROGRAMS, *TOOLS}
        workers = await self.runtime.store.read(rows.workers)
        dead = {one.id for one in workers if self.runtime.worker.life(one) is Life.DEAD}
        found = await self.runtime.store.read(ready, known, dead, self._at_once, only=self.only)
        for one in found:
            if len(self._tasks) < self._at_once and one.uid not in self._tasks and self._may_try(one):
                self._tasks[one.uid] = asyncio.ensure_future(self._run(one))
        if self.only is None:
            soon: int | None = await self.runtime.store.read(wait.next_due)
            return soon is not None and (soon - self.runtime.store.clock.now()) / 1_000_000 <= SOON
        view = await self.runtime.get(self.only)
        timed = any(one.due_at is not None and one.kind == "timer" for one in view.waits)
        return timed or (view.status == "running" and view.uid not in self._tried)

    def _may_try(self, one: SessionRecord) -> bool:
        held = self._held.get(one.uid)
        recently = held is not None and self.runtime.store.clock.boot() - held < LOOK * 1_000_000
        return self._tried.get(one.uid) != one.cursor and not recently

    async def _is_over(self) -> bool:
        """Whether the one session that it is for has ended, or cannot be run here."""
        if self.only is None or self._tasks:
            return False
        view = await self.runtime.get(self.only)
        stuck = view.status == "ready" and self._tried.get(view.uid) == view.cursor
        return view.status in ("done", "failed", "cancelled") or stuck

    async def _run(self, one: SessionRecord) -> None:
        from perdure.cli.plain import safe
        from perdure.errors import LeaseHeld, LeaseLost, PerdureError

        try:
            view = await self.runtime.run(one.uid)
        except (LeaseHeld, LeaseLost):
            self._held[one.uid] = self.runtime.store.clock.boot()
            return
        except PerdureError as error:
            view = await self.runtime.get(one.uid)
            self._tried[one.uid] = view.cursor
            self.failed = True
            said = f"session {safe(one.id)}: {safe(error.message)} [{error.code}] {safe(error.hint)}"
            about = {"code": error.code, "message": error.message, "hint": error.hint}
            self.tell(said, "worker.failed", session=one.id, error=about)
            return
        self.tell(f"session {safe(view.id)} is {view.status}", "worker.left", session=view.id, status=view.status)


def ready(
    tx: Transaction, known: Collection[str], dead: Collection[str], limit: int, *, only: str | None
) -> list[SessionRecord]:
    """Sessions that somebody may take: ready, left by a worker, or parked for want of code that is here."""
    from perdure.store import session

    found = [one for one in session.expired(tx, limit=PAGE, damaged=[]) if _fits(tx, one, only)]
    if only is not None:
        mine = session.get(tx, only)
        found += [mine] if mine.status in ("ready", "running") else []
    found += _page(tx, known, limit, only, status="ready")
    running = _page(tx, known, limit, only, status="running") if dead else []
    found += [one for one in running if (one.lease_holder or "").split("@")[0] in dead]
    parked = _page(tx, known, limit, only, status="waiting", waiting_for="program")
    found += [one for one in parked if set(known).issuperset(_code(tx, one))]
    return [one for one in {one.uid: one for one in found}.values() if one.program in known and not one.sealed_at]


def _code(tx: Transaction, one: SessionRecord) -> list[str | None]:
    """The programs and tools that a session waits for."""
    from perdure.domain.wait import WaitKind
    from perdure.store import wait

    return [asked.ref for asked in wait.open_of_kind(tx, one.uid, WaitKind.PROGRAM)]


def _page(
    tx: Transaction, known: Collection[str], limit: int, only: str | None, *, status: str,
    waiting_for: str | None = None,
) -> list[SessionRecord]:  # fmt: skip
    from perdure.store import session

    found: list[SessionRecord] = []
    before: SessionRecord | None = None
    while len(found) < limit:
        page = session.page(tx, status=status, waiting_for=waiting_for, before=before, limit=PAGE, damaged=[])
        found += [one for one in page if one.program in known and _fits(tx, one, only)]
        if len(page) < PAGE:
            break
        before = page[-1]
    return found


def _fits(tx: Transaction, one: SessionRecord, only: str | None) -> bool:
    """Whether a session is the one, or below it."""
    from perdure.store import session

    while only is not None and one.uid != only:
        if one.parent_uid is None:
            return False
        one = session.get(tx, one.parent_uid)
    return True
