"""`perdure worker`: a disposable process that runs sessions which are ready, and ends when there is nothing to do."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, by_option, command

if TYPE_CHECKING:
    from perdure.errors import StoreError
    from perdure.runtime.runtime import Runtime
    from perdure.runtime.workers.queue import Entry

LOOK = 1.0  # seconds between looks where nothing wakes it
SOON = 60.0  # seconds; a worker that could end stays for what is due by then
AWAY = 60.0  # seconds that a worker which could end waits for a store that is away
ALONE = 60.0  # seconds that a session whose worker crashed runs alone, unless it gets further before


@command
@click.argument("id", required=False)
@click.option("--idle", type=click.FloatRange(0), metavar="SECONDS", help="End after so long with nothing to do.")
@click.option("--at-once", type=click.IntRange(1, 1000), default=4, show_default=True, help="Run so many side by side.")
@by_option
def worker(shell: Shell, id: str | None, idle: float | None, at_once: int) -> int:
    """Run sessions that are ready, until it is stopped.

    It takes those whose program it knows, and those whose worker died: higher priority first, then the oldest. One that
    has lost its worker runs alone, and after five losses without progress it waits for a person. With ID, only that
    session and its children; it then stays while the session waits for a time. Without, --idle lets it end although a
    time is due later than in a minute, and it says when to start again. Killed anywhere, it loses nothing.
    """
    from perdure.cli.store_access import run_with_runtime

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

    return run_with_runtime(shell, work)


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
        self._suspect: Entry | None = None  # the session that runs alone, because its last worker crashed
        self._since: dict[str, int] = {}  # when such a session was first passed over, or begun
        self._away_since: int | None = None  # when the store was last found to be away
        self._failed_at: int | None = None  # when the store last failed a session that ran here
        self._unfired: dict[tuple[str, str], int] = {}  # when a wait that is due could not be resolved

    async def until_idle(self, idle: float | None) -> None:
        from perdure.errors import StoreFull, StoreUnavailable

        store = self.runtime.store
        quiet_since = store.clock.boot()
        while True:
            seen = store.wakeups.version
            try:
                is_over, busy = await self._is_over(), await self._look()
            except (StoreUnavailable, StoreFull) as error:
                self._stay_without_store(error, idle)
                await self._wait(seen, LOOK)
                continue
            self._away_since = None
            if busy or self._tasks or self._is_recovering():
                quiet_since = store.clock.boot()
            left = LOOK if idle is None else idle - (store.clock.boot() - quiet_since) / 1_000_000
            if (left <= 0 and not self._tasks) or (is_over and not self._tasks):
                await self._say_when()
                return
            await self._wait(seen, min(LOOK, max(0.0, left)))

    def _stay_without_store(self, error: StoreError, idle: float | None) -> None:
        """Stay while the store is away: only this process knows what came of the acts that ended meanwhile."""
        if self._away_since is None:
            self._away_since = self.runtime.store.clock.boot()
            about = {"code": error.code, "message": error.message, "hint": error.hint}
            self.tell(f"{error.message} [{error.code}] It is tried again.", "worker.waiting", error=about)
        if idle is not None and self._is_past(self._away_since, max(idle, AWAY)):
            raise error

    def _is_recovering(self) -> bool:
        """Whether a session that the store failed may not have been given back yet: within the time of a lease."""
        longest = max(self.runtime.heart.ttl / 1_000_000, 2 * LOOK)
        return self._failed_at is not None and not self._is_past(self._failed_at, longest)

    async def _say_when(self) -> None:
        """Nobody wakes a worker that has ended: say when the next one has something to do."""
        from perdure.cli.text.plain import span
        from perdure.clock import moment
        from perdure.store.moves import wait

        now = self.runtime.store.clock.now()
        due = await self.runtime.store.read(wait.next_due, now)
        if self.only is None and due is not None:
            left = span(max(0, due - now))
            said = f"the next time is due at {moment(due)} (in {left}): start a worker then"
            self.tell(said, "worker.idle", next_due=due)

    def tell(self, line: str, type: str, **about: Any) -> None:
        """One line for a person, or one object for a script."""
        if self.shell.json:
            self.shell.echo_json({"type": type} | about)
        else:
            self.shell.echo(line)

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
        from perdure.store.moves import wait

        now = self.runtime.store.clock.now()
        await self._fire()
        await self._take()
        if self.only is None:
            soon: int | None = await self.runtime.store.read(wait.next_due, now)
            return soon is not None and (soon - now) / 1_000_000 <= SOON
        view = await self.runtime.get(self.only)
        timed = any(one.due_at is not None and one.kind == "timer" for one in view.waits)
        return timed or (view.status == "running" and view.uid not in self._tried)

    async def _fire(self) -> None:
        """Resolve what is due. What cannot be resolved is named once, and keeps nothing else from being resolved."""
        from perdure.errors import StoreFull, StoreUnavailable
        from perdure.runtime.run.lineage import tell_left_behind
        from perdure.store.moves import wait

        await tell_left_behind(self.runtime.store, self.runtime.worker.name)
        for due in await self.runtime.store.read(wait.due, limit=100 + len(self._unfired)):
            known = self._unfired.get((due.session_uid, due.id))
            if known is not None and not self._is_past(known, SOON):
                continue
            try:
                await self.runtime.fire(due)
            except (StoreUnavailable, StoreFull):
                raise
            except Exception as error:
                self._unfired[due.session_uid, due.id] = self.runtime.store.clock.boot()
                if known is None:
                    self._say_failed(due.session_uid, error)

    async def _take(self) -> None:
        """Begin to run what is next, as far as there is room; one whose last worker crashed runs alone."""
        from perdure.domain.worker import Life
        from perdure.runtime.workers.queue import next_in_line
        from perdure.store.moves import worker as rows

        store = self.runtime.store
        workers = await store.read(rows.workers)
        dead = {one.id for one in workers if self.runtime.worker.life(one) is Life.DEAD}
        passed = len(self._tasks) + len(self._tried) + len(self._held)
        found = await store.read(
            next_in_line, dead,
            limit=self._at_once + passed, has_policy=self.runtime.policy.is_given, only=self.only,
        )  # fmt: skip
        free = [one for one in found if one.uid not in self._tasks and self._may_try(one)]
        for one in free if self._tasks else sorted(free, key=lambda one: not one.has_crashed):
            if len(self._tasks) >= self._at_once or await self._runs_alone():
                return
            if one.has_crashed:
                since = self._since.setdefault(one.uid, store.clock.boot())
                if self._tasks and not self._is_past(since, ALONE):
                    continue
                self._suspect, self._since[one.uid] = one, store.clock.boot()
            self._tasks[one.uid] = asyncio.ensure_future(self._run(one))

    async def _runs_alone(self) -> bool:
        """Whether a session that may crash this worker too was begun, and has done nothing yet."""
        from perdure.runtime.workers.queue import entry

        one = self._suspect
        if one is None or one.uid not in self._tasks or self._is_past(self._since[one.uid], ALONE):
            return False
        now = await self.runtime.store.read(entry, one.uid)
        return now is not None and now.cursor <= one.cursor + 1  # it was only taken

    def _is_past(self, since: int, seconds: float) -> bool:
        return self.runtime.store.clock.boot() - since >= seconds * 1_000_000

    def _may_try(self, one: Entry) -> bool:
        held = self._held.get(one.uid)
        return self._tried.get(one.uid) != one.cursor and (held is None or self._is_past(held, LOOK))

    async def _is_over(self) -> bool:
        """Whether the one session that it is for has ended, or cannot be run here."""
        if self.only is None or self._tasks:
            return False
        view = await self.runtime.get(self.only)
        stuck = view.status == "ready" and self._tried.get(view.uid) == view.cursor
        return view.status in ("done", "failed", "cancelled") or stuck

    async def _run(self, one: Entry) -> None:
        from perdure.cli.text.plain import safe
        from perdure.errors import LeaseHeld, LeaseLost, StoreFull, StoreUnavailable
        from perdure.runtime.workers.queue import entry

        try:
            view = await self.runtime.run(one.uid)
        except (LeaseHeld, LeaseLost):
            self._held[one.uid] = self.runtime.store.clock.boot()
            return
        except (StoreUnavailable, StoreFull):  # what is owed to it is paid when the store is back; then it is run again
            self._held[one.uid] = self._failed_at = self.runtime.store.clock.boot()
            return
        except Exception as error:  # one session that cannot be run must not keep the others from running
            now = await self.runtime.store.read(entry, one.uid)
            self._tried[one.uid] = one.cursor if now is None else now.cursor
            self.failed = True
            self._say_failed(one.id, error)
            return
        self.tell(f"session {safe(view.id)} is {view.status}", "worker.left", session=view.id, status=view.status)

    def _say_failed(self, session: str, error: Exception) -> None:
        from perdure.cli.text.plain import safe
        from perdure.errors import PerdureError

        if isinstance(error, PerdureError):
            about = {"code": error.code, "message": error.message, "hint": error.hint}
        else:
            about = {"code": "internal", "message": f"{type(error).__name__}: {error}", "hint": ""}
        said = f"session {safe(session)}: {safe(about['message'])} [{about['code']}] {safe(about['hint'])}"
        self.tell(said.rstrip(), "worker.failed", session=session, error=about)
