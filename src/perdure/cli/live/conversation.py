"""A person and a session at one terminal: what happens is shown, what is asked is asked here, what is typed is sent.

Everything that happens comes through one queue, so that nothing is drawn twice or in the middle of something else:

    event, delta     the session's log, and what its model is just saying
    line             something was typed, and what was asked then; Ctrl-D is no line
    interrupt        Ctrl-C: once to stop between acts, twice to leave at once while it goes on in the background
    moved, tick      the session stands still, or cannot be moved here; time has passed

Several terminals may watch one session; what another one answered is seen here like everything else.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import closing
from typing import Any

from perdure.cli.live.child_sessions import ChildSessions
from perdure.cli.live.drivers import Driver
from perdure.cli.live.event_log import stop
from perdure.cli.live.keyboard import Keyboard
from perdure.cli.live.prompts import WaitPrompt, is_for_message
from perdure.cli.live.renderers import Renderer
from perdure.cli.live.screen import Screen
from perdure.cli.shell import Shell
from perdure.cli.store_access import describe_lease
from perdure.cli.text.waits import WaitDescription, describe_waits
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.wait import WaitKind
from perdure.errors import LeaseHeld, LeaseLost, PerdureError
from perdure.runtime.live_text import POLL_INTERVAL, Delta, LiveTextReader
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.move import StoreTransaction
from perdure.store.moves import session

TICK = 0.2
GRACE = 3  # ticks that a ready session is left to a worker that is on its way
PATIENCE = 2.0  # seconds that an act may take to end when a person leaves at once
QUIET = frozenset({"message", "note", "step.recorded", "artifact.saved", "fact.remembered"})


class Conversation:
    """One terminal with one session, or one stream of it where nobody sits. `left` says why it is over."""

    def __init__(
        self, shell: Shell, runtime: Runtime, view: SessionView, renderer: Renderer, screen: Screen | None = None
    ) -> None:
        self.shell = shell
        self.runtime = runtime
        self.view: SessionRecord = view
        self.renderer = renderer
        self.screen = screen
        self.children = ChildSessions(runtime, screen)
        self.driver: Driver
        self.asking: WaitPrompt | None = None
        self.left: str | None = None  # ended, waiting, left, paused, detached, dead
        self.takes_over = False
        self._holder: tuple[str | None, bool] | None = None  # who was said to have it, and to be alive
        self._ear = LiveTextReader(runtime.live_text, view.uid)
        self._keys: Keyboard | None = None
        self._queue: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._look_due = True
        self._interrupts = 0
        self._closing = False
        self._moved_once = False
        self._has_moved = False
        self._frame = 0
        self._ready_since: int | None = None

    def open_keyboard(self) -> None:
        """Somebody is at the keyboard."""
        assert self.screen is not None
        keys = self._keys = Keyboard(
            sys.stdin.fileno(), self.screen.console.file, self._heard, self.screen.refresh, plain=not self.screen.draws
        )
        self.asking = WaitPrompt(self.shell, self.runtime, self.screen, self._go_on, self._stash_typed)
        self.screen.typed = lambda: keys.typed

    def _heard(self, line: str | None) -> None:
        self._put("line", (line, None if self.asking is None else self.asking.asked))

    def _stash_typed(self) -> None:
        """Before a question is shown: what is half typed is put away, and lines on their way belong to what was."""
        if self._keys is not None and self._keys.stash_typed() and self.screen is not None:
            self.screen.line("  What you had begun to type is no answer to this. The up key brings it back.", "dim")

    def moved(self, error: PerdureError | None) -> None:
        """The driver's report."""
        self._put("moved", error)

    def _put(self, what: str, value: Any = None) -> None:
        self._queue.put_nowait((what, value))

    async def run(self) -> SessionView:
        """Until the session has ended, only somebody elsewhere can go on, or the person leaves."""
        self.runtime.on_delta = lambda piece: self._put("delta", piece) if piece.session == self.view.uid else None
        loop = asyncio.get_running_loop()
        tasks = [asyncio.ensure_future(work()) for work in (self._follow, self._listen, self._tick)]
        if self._keys is not None:
            if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                loop.add_signal_handler(signal.SIGINT, self._put, "interrupt")
            loop.add_signal_handler(signal.SIGCONT, self._keys.take)
            self._keys.open()
        if self.driver.is_here and self.view.status not in TERMINAL:
            self._go_on()
        try:
            while self.left is None:
                if self._look_due and self._queue.empty():
                    await self.look()
                    continue
                what, value = await self._queue.get()
                await getattr(self, f"_on_{what}")(value)
        finally:
            await stop(*tasks)
            if self._keys is not None:
                loop.remove_signal_handler(signal.SIGINT)
                loop.remove_signal_handler(signal.SIGCONT)
                self._keys.close()
            if self.screen is not None:
                self.screen.leave()
        return await self.runtime.get(self.view.uid)

    async def _follow(self) -> None:
        async for event in self.runtime.store.follow(self.view.uid, self.renderer.number):
            self._put("event", event)

    async def _listen(self) -> None:
        with closing(self._ear):
            while True:
                self._overhear()
                await asyncio.sleep(POLL_INTERVAL)

    def _overhear(self) -> None:
        """Hear what is said in another process. What is said in this one is heard as it comes."""
        if not (self.driver.is_here and self.driver.is_moving):
            for piece in self._ear.poll():
                self._put("delta", piece)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._put("tick")

    async def look(self) -> None:
        """Where the session is now, once everything before it is shown."""
        self._look_due = False
        self.view, asked = view, _ = await self.runtime.store.read(_standing, self.view.uid)
        if view.status != Status.READY:
            self._ready_since = None
        if self.renderer.number < view.cursor:
            return  # the next event looks again
        if view.status in TERMINAL:
            self.left = "ended"
        elif self._interrupts and view.status == Status.WAITING:
            await self._stopped(asked)
        elif view.status == Status.READY:
            self._withdraw()
            self._ready()
        elif view.status == Status.RUNNING and not self.driver.is_here and not await self._is_held():
            await self._orphaned()
        else:
            await self._ask([one for one in asked if one.for_a_person])

    async def _is_held(self) -> bool:
        """Whether whoever has the session may be alive; said once for each of them."""
        alive, said = await self.runtime.store.read(describe_lease, self.shell, self.view.uid, wanted=self.takes_over)
        known = (self.view.lease_holder, alive)
        if alive and self.screen is not None and self.screen.is_open:
            return True  # what it says is seen; who it is can be said after that
        self._overhear()
        if not alive and not self._queue.empty():
            self._look_due = True
            return True  # its last words come first
        if said and known != self._holder and not (alive and self.driver.is_moving) and self.screen is not None:
            self.screen.line(said, "dim" if alive and not self.takes_over else "yellow")
        self._holder = known
        return alive

    async def _orphaned(self) -> None:
        """Its worker is dead: go on if that was asked for, ask if somebody is here, else leave."""
        if self.takes_over or self.driver.is_moving:
            self._go_on()
        elif self.asking is not None:
            self.asking.offer_to_take_over(self.view)
        else:
            self.left = "dead"

    async def _ask(self, asked: list[WaitDescription]) -> None:
        """Ask for what a person must give, or wait for what is not here yet."""
        if not asked:
            self._withdraw()
            if self.view.status == Status.WAITING and not self._moved_once:
                self._go_on()  # a timer, or a child: somebody must be there when it is due
        elif self._closing and self.view.status == Status.WAITING:
            self.left = "left"
        elif self.view.status == Status.RUNNING and self.driver.is_here and is_for_message(asked[0]):
            return  # it is about to come to rest here, and the log will say so
        elif self.asking is not None:
            await self.asking.present(asked[0])
        elif self.view.status == Status.WAITING and not (self.driver.is_here and self.driver.is_moving):
            self.left = "waiting"

    def _withdraw(self) -> None:
        if self.asking is not None and self.asking.asked is not None:
            self.asking.withdraw()

    def _ready(self) -> None:
        """Let it go on; if a worker is on its way already, leave it to that one."""
        self._ready_since = self._frame if self._ready_since is None else self._ready_since
        if self.driver.is_here or self._frame - self._ready_since >= GRACE:
            self._go_on()

    def _go_on(self) -> None:
        self._moved_once = True
        self.driver.start()

    async def _stopped(self, asked: list[WaitDescription]) -> None:
        """It stands still because it was asked to, or had nothing left to do anyway."""
        if any(one.wait.kind == WaitKind.PAUSED for one in asked):
            self.left = "paused"
            return
        await self.runtime.resume(self.view.uid, by=self.shell.by)
        self.left = "left"

    async def _on_event(self, event: Event) -> None:
        asked = None if self.asking is None else self.asking.asked
        if asked is not None and event.kind == "wait.resolved" and self.asking is not None:
            row = event.body["rows"]["wait"]
            if (row[0] if isinstance(row, list) else row)["id"] == asked.wait.id:
                self.asking.withdraw()
        self.driver.saw(event.kind)
        await self.renderer.event(event)
        await self.children.event(event)
        if event.kind not in QUIET or event.number >= self.view.cursor:
            self._look_due = True

    async def _on_delta(self, piece: Delta) -> None:
        self.renderer.delta(piece)

    async def _on_line(self, heard: tuple[str | None, WaitDescription | None]) -> None:
        line, then = heard
        if self.asking is None:
            return
        if line is None:
            self._closing = True  # what runs here is not left before it stands still
            if self.asking.asked is not None or not self.driver.is_here:
                self.left = "left"
        elif then is not None and then is self.asking.asked:
            if not await self.asking.take(line):
                self.left = "left"
            self._look_due = True
        elif then is not None and not is_for_message(then) and self.screen is not None:
            self.screen.line("  That question is closed already, so what you typed was not sent.", "dim")
        elif line.strip():
            await self._steer(line.strip())

    async def _steer(self, text: str) -> None:
        try:
            await self.runtime.send(self.view.uid, text, by=self.shell.by, mode="steer")
        except PerdureError as error:
            if self.screen is not None:
                self.screen.line(f"  {error.message}", "yellow")

    async def _on_interrupt(self, _: None) -> None:
        assert self._keys is not None
        assert self.screen is not None
        if self._keys.clear():
            self.screen.refresh()
        elif self.view.status == Status.WAITING and self.asking is not None and self.asking.asked is not None:
            self.left = "left"
        elif self._interrupts == 0:
            self._interrupts = 1
            await self.runtime.pause(self.view.uid, by=self.shell.by)
            self.screen.line("It stops after what it is doing now. Ctrl-C again leaves at once, and it goes on.")
        else:
            await self.runtime.resume(self.view.uid, by=self.shell.by)
            self.left = "detached"

    async def _on_moved(self, error: PerdureError | None) -> None:
        self._look_due = True
        if error is None:
            self._has_moved = True
            return
        if not isinstance(error, LeaseHeld | LeaseLost) or not self._has_moved or self.screen is None:
            raise error
        self.screen.line(f"{error.message} Watching goes on.", "yellow")

    async def _on_tick(self, _: None) -> None:
        self._frame += 1
        if (error := self.driver.look()) is not None and self.view.status in (Status.READY, Status.RUNNING):
            raise error
        if self.screen is not None and self.screen.prompt is None and self.view.status != Status.WAITING:
            self.screen.refresh(self.renderer.status(self._frame))
        await self.children.look()
        if self._frame % 5 == 0 or self._ready_since is not None:
            self._look_due = True


def _standing(tx: StoreTransaction, uid: str) -> tuple[SessionRecord, list[WaitDescription]]:
    """A session and what it waits for, as of one moment."""
    found = session.get(tx, uid)
    return found, describe_waits(tx, found) if found.status not in TERMINAL else []
