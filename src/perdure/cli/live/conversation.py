"""A person and a session at one terminal: events are shown, questions are asked, and what is typed is sent.

Everything comes through one queue, so that nothing is drawn twice or in the middle of something else:

    event, delta     an event of the session's log; live text of its model
    line             a line was typed, with the question that was open then; Ctrl-D is None
    interrupt        Ctrl-C: once to stop what the session does, twice to leave while a worker continues
    hangup           the terminal was closed: as the second Ctrl-C
    driven, tick     the driver reports that the session rests or cannot be run; time has passed

Several terminals may watch one session. An answer from another terminal arrives here as an event.
"""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

from perdure.cli.attachments import Message
from perdure.cli.display.session_info import SessionInfoRow
from perdure.cli.input.hangup import leave_terminal, unwatch_hangup, watch_hangup
from perdure.cli.input.message_input import MessageInput
from perdure.cli.live.child_sessions import ChildSessions
from perdure.cli.live.event_log import stop
from perdure.cli.live.screen import Screen
from perdure.cli.live.session_driver import SessionDriver
from perdure.cli.live.session_renderer import ItemRenderer, Renderer
from perdure.cli.live.session_source import SessionSource, StoreSource
from perdure.cli.live.slash_commands import SlashCommands, parse
from perdure.cli.prompts.wait_prompt import TOO_EARLY, WaitPrompt, is_for_message
from perdure.cli.shell import Shell
from perdure.cli.text.plain import safe
from perdure.cli.text.waits import WaitDescription
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.wait import WaitKind
from perdure.errors import LeaseHeld, LeaseLost, PerdureError
from perdure.runtime.live_text.delta import POLL_INTERVAL, Delta
from perdure.runtime.runtime import Runtime, SessionView

TICK = 0.2
UNSTOPPED = 5  # ticks after which the person is told what could not be stopped
GRACE = 3  # ticks that a ready session is left to a worker that may be about to claim it
QUIET = frozenset({"message", "note", "step.recorded", "artifact.saved", "fact.remembered"})


class Conversation:
    """One terminal with one session, or one stream of its events if the output is not a terminal.

    `end` is why it is over: ended, waiting, left, paused, detached or dead.
    """

    def __init__(
        self, shell: Shell, runtime: Runtime, view: SessionView, renderer: Renderer, screen: Screen | None = None,
        source: SessionSource | None = None,
    ) -> None:  # fmt: skip
        self.shell = shell
        self.runtime = runtime
        self.session: SessionRecord = view
        self.source = source or StoreSource(shell, runtime, view)
        self.renderer = renderer
        self.screen = screen
        self.children = ChildSessions(runtime, screen if source is None else None)
        self.driver: SessionDriver
        self.prompt: WaitPrompt | None = None
        self.end: str | None = None
        self.takes_over = False
        self.watches = False  # whether to watch if another process runs the session: it was free, or was run here
        self._shown_holder: tuple[str | None, bool] | None = None  # the lease holder that was shown, and whether alive
        self._input: MessageInput | None = None
        self._info: SessionInfoRow | None = None
        self._queue: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._check_due = True
        self._has_status = True  # it runs, or waits for something other than a person
        self._interrupts = 0
        self._interrupted_at = 0  # the frame of the last interrupt
        self._closing = False
        self._was_started = False
        self._frame = 0
        self._ready_since: int | None = None

    def open_keyboard(self) -> None:
        """Read the keyboard: a person is at this terminal."""
        assert self.screen is not None
        self._input = MessageInput(self.screen, self.source.folder, self._on_typed, lambda: self._put("escape"))
        if isinstance(self.renderer, ItemRenderer):
            self._info = SessionInfoRow(self.source.info, self.screen)
        self.prompt = WaitPrompt(
            self.shell, self.runtime, self.source, self.screen, self._start, self._input.stash_typed
        )

    def _on_typed(self, line: str | None) -> None:
        self._put("line", (line, None if self.prompt is None else self.prompt.answerable))

    def report(self, error: PerdureError | None) -> None:
        """The driver reports that the session rests, or why it cannot be run; or the log cannot be read any more."""
        self._put("driven", error)

    def _put(self, what: str, value: Any = None) -> None:
        self._queue.put_nowait((what, value))

    async def run(self) -> SessionView:
        """Run until the session has ended, waits for something that is not given here, or the person leaves."""
        self.runtime.on_delta = lambda piece: self._put("delta", piece) if piece.session == self.session.uid else None
        loop = asyncio.get_running_loop()
        tasks = [asyncio.ensure_future(work()) for work in (self._follow, self._listen, self._tick)]
        if self._input is not None:
            if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                loop.add_signal_handler(signal.SIGINT, self._put, "interrupt")
            loop.add_signal_handler(signal.SIGCONT, self._input.keyboard.enter_cbreak)
            watch_hangup(lambda: self._put("hangup"))
            self._input.keyboard.open()
        if self.driver.is_here and self.session.status not in TERMINAL:
            self._start()
        handlers: dict[str, Callable[[Any], Awaitable[None]]] = {
            "event": self._on_event,
            "delta": self._on_delta,
            "line": self._on_line,
            "interrupt": self._on_interrupt,
            "escape": self._on_escape,
            "hangup": self._on_hangup,
            "driven": self._on_driven,
            "tick": self._on_tick,
        }
        try:
            while self.end is None:
                if self._check_due and self._queue.empty():
                    await self.check()
                    continue
                what, value = await self._queue.get()
                await self._handle(handlers[what], value)
        finally:
            await stop(*tasks)
            if self._input is not None:
                loop.remove_signal_handler(signal.SIGINT)
                loop.remove_signal_handler(signal.SIGCONT)
                unwatch_hangup()
                self._input.keyboard.close()
            if self.screen is not None:
                self.screen.leave()
        return await self.source.last()

    async def _handle(self, handler: Callable[[Any], Awaitable[None]], value: Any) -> None:
        try:
            await handler(value)
        except OSError as error:
            if error.errno != errno.EIO or self._input is None:
                raise
            leave_terminal()  # it was closed, and the signal is about to come
            await self._on_hangup(None)

    async def _follow(self) -> None:
        try:
            async for event in self.source.events(self.renderer.number):
                self._put("event", event)
        except PerdureError as error:
            self.report(error)

    async def _listen(self) -> None:
        with closing(self.source):
            while True:
                self._poll_live_text()
                await asyncio.sleep(POLL_INTERVAL)

    def _poll_live_text(self) -> None:
        """Read live text of another process. That of this process arrives by itself."""
        if not (self.driver.is_here and self.driver.is_running):
            for piece in self.source.poll():
                self._put("delta", piece)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._put("tick")

    async def check(self) -> None:
        """Act on the state of the session, once all its events are shown."""
        self._check_due = False
        if self.source.is_service and self.renderer.number < self.session.cursor:
            return  # events that are known are not shown yet
        if (read := await self.source.state()) is None:
            self._check_due = True
            return
        self.session, asked = view, _ = read
        if self._info is not None:
            await self._info.update(view)
        if view.status != Status.READY:
            self._ready_since = None
        alone = [one for one in asked if view.status == Status.WAITING and not one.for_a_person]
        self.renderer.wait_for(alone)
        self._has_status = view.status != Status.WAITING or bool(alone)
        if self.renderer.number < view.cursor:
            return  # the next event checks again
        if view.status in TERMINAL:
            self.end = "ended"
        elif self._interrupts and any(one.wait.kind == WaitKind.PAUSED for one in asked):
            self.end = "paused"
        elif view.status == Status.READY:
            self._withdraw()
            self._on_ready()
        elif view.status == Status.RUNNING and not self.driver.is_here and not await self._is_held():
            await self._on_dead_worker()
        else:
            await self._ask([one for one in asked if one.for_a_person])

    async def _is_held(self) -> bool:
        """Whether the lease holder may be alive; each holder is shown once."""
        alive, text = await self.source.holder(wanted=self.takes_over)
        known = (self.session.lease_holder, alive)
        if alive and self.screen is not None and self.screen.is_open:
            return True  # live text is being shown; the holder is shown after it
        self._poll_live_text()
        if not alive and not self._queue.empty():
            self._check_due = True
            return True  # show its last live text first
        if text and known != self._shown_holder and not (alive and self.driver.is_running) and self.screen is not None:
            self.screen.line(text, "dim" if alive and not self.takes_over else "yellow")
        self._shown_holder = known
        return alive

    async def _on_dead_worker(self) -> None:
        """Its worker is dead: continue if that was requested, ask if a person is here, otherwise leave."""
        if self.takes_over or self.driver.is_running:
            self._start()
        elif self.prompt is not None:
            self.prompt.offer_to_take_over(self.session)
        else:
            self.end = "dead"

    async def _ask(self, asked: list[WaitDescription]) -> None:
        """Ask what a person must answer, or wait for something else."""
        if not asked:
            self._withdraw()
            if self.session.status == Status.WAITING and not self._was_started:
                self._start()  # a timer or a child: a process must run when it is due
        elif self._closing and self.session.status == Status.WAITING:
            self.end = "left"
        elif self.session.status == Status.RUNNING and self.driver.is_here and is_for_message(asked[0]):
            return  # it is about to come to rest here, which the next events show
        elif self.prompt is not None:
            self._interrupts = 0
            await self.prompt.present(asked[0])
        elif self.session.status == Status.WAITING and not (self.driver.is_here and self.driver.is_running):
            self.end = "waiting"

    def _withdraw(self) -> None:
        if self.prompt is not None and self.prompt.open_wait is not None:
            self.prompt.withdraw()

    def _on_ready(self) -> None:
        """Run it, unless a worker claims it first."""
        self._ready_since = self._frame if self._ready_since is None else self._ready_since
        if self.driver.is_here or self._frame - self._ready_since >= GRACE:
            self._start()

    def _start(self) -> None:
        self._was_started = True
        self.driver.start()

    async def _on_event(self, event: Event) -> None:
        asked = None if self.prompt is None else self.prompt.open_wait
        if asked is not None and event.kind == "wait.resolved" and self.prompt is not None:
            row = event.body["rows"]["wait"]
            if (row[0] if isinstance(row, list) else row)["id"] == asked.wait.id:
                self.prompt.withdraw()
        self.driver.saw(event.kind)
        await self.renderer.event(event)
        await self.children.event(event)
        if event.kind not in QUIET or event.number >= self.session.cursor:
            self._check_due = True

    async def _on_delta(self, piece: Delta) -> None:
        self.renderer.delta(piece)

    async def _on_line(self, typed: tuple[str | None, WaitDescription | None]) -> None:
        line, then = typed
        if self.prompt is None:
            return
        if line is None:
            self._closing = True  # what runs here is left only when it rests
            if self.prompt.open_wait is not None or not self.driver.is_here:
                self.end = "left"
        elif (command := parse(line)) is not None:
            await self._run_command(line, *command, then)
        elif then is not None and then is self.prompt.open_wait:
            text = self._compose(line) if is_for_message(then) and line.strip() else line
            if isinstance(text, list):  # it names images or documents
                await self._steer(text)
            elif text is not None and not await self.prompt.take(text):
                self.end = "left"
            self._check_due = True
        elif then is TOO_EARLY and self.screen is not None:
            self.screen.line("  That was typed before the question could be answered. It was not used.", "dim")
        elif then is not None and not is_for_message(then) and self.screen is not None:
            self.screen.line("  That question is closed already. Your line was not sent.", "dim")
        elif line.strip() and (text := self._compose(line.strip())) is not None:
            await self._steer(text)

    async def _run_command(self, line: str, name: str, rest: str, then: WaitDescription | None) -> None:
        """Run a slash command. What is typed for a question applies only while that question is open."""
        assert self.screen is not None
        assert self.prompt is not None
        if name == "quit":
            await self._on_line((None, then))
            return
        self.session = await self.runtime.get(self.session.uid)
        is_open = then is not None and then is self.prompt.open_wait and then.wait.kind == WaitKind.APPROVAL
        approval = then.wait.id if is_open and then is not None else None
        found = await SlashCommands(self.shell, self.runtime, self.screen).run(name, rest, self.session, approval)
        if not found and self._input is not None:
            self._input.keyboard.put_back(line)
            self.screen.refresh()
        self._check_due = True

    def _compose(self, line: str) -> Message | None:
        """A message with its attachments; None if it cannot be sent."""
        return line if self._input is None else self._input.compose(line)

    async def _steer(self, text: Message) -> None:
        try:
            await self.runtime.send(self.session.uid, text, by=self.shell.by, mode="steer")
        except PerdureError as error:
            if self.screen is not None:
                self.screen.line(f"  {error.message}", "yellow")

    @property
    def _is_asking(self) -> bool:
        """Whether the session rests, and a prompt is open."""
        return self.session.status == Status.WAITING and self.prompt is not None and self.prompt.open_wait is not None

    async def _on_interrupt(self, _: None) -> None:
        """Ctrl-C: discard what is typed; leave a session that rests; interrupt one that runs, and then leave it."""
        assert self._input is not None
        assert self.screen is not None
        if self._input.keyboard.clear():
            self.screen.refresh()
        elif self._is_asking:
            self.end = "left"
        elif self._interrupts == 0 and not self.source.is_service:
            await self._interrupt()
        else:
            await self._detach()

    async def _on_hangup(self, _: None) -> None:
        """The terminal was closed: leave a session that rests, and hand over one that does not."""
        await self._detach()
        self.end = "left" if self._is_asking else "detached"

    async def _detach(self) -> None:
        """Leave a session that continues without this terminal."""
        if self._interrupts:
            await self.source.withdraw_interrupt()
        self.end = "detached"

    async def _on_escape(self, _: None) -> None:
        """Escape: interrupt a session that runs, and keep what is typed; put it aside where the session rests."""
        assert self._input is not None
        if self._is_asking:
            self._input.stash_typed()
        elif self._interrupts == 0:
            await self._interrupt()

    async def _interrupt(self) -> None:
        """Stop what the session does now. The prompt is open again when it rests."""
        self._interrupts, self._interrupted_at = 1, self._frame
        try:
            await self.runtime.interrupt(self.session.uid, by=self.shell.by)
        except PerdureError as error:
            if self.screen is not None:
                self.screen.line(f"  {error.message}", "yellow")

    async def _show_unstopped(self) -> None:
        """Name what has not stopped: a function in a thread of a process cannot be stopped."""
        if not self._interrupts or self._frame - self._interrupted_at != UNSTOPPED or self.screen is None:
            return
        running = [one async for one in self.runtime.effects(session=self.session.uid, state="dispatched")]
        names = ", ".join(dict.fromkeys(safe(one.tool) for one in running)) or "The current step"
        leave = "Press Ctrl-C again to leave; the session then continues in the background."
        leave = "Press Ctrl-C to leave." if self.source.is_service else leave
        self.screen.line(
            f"{names} cannot be stopped; the session stops when it has ended. You can type your next message. {leave}",
            "yellow",
        )

    async def _on_driven(self, error: PerdureError | None) -> None:
        self._check_due = True
        if error is None:
            self.watches = True
            return
        if not isinstance(error, LeaseHeld | LeaseLost) or not self.watches or self.screen is None:
            raise error
        self.screen.line(f"{error.message} Still watching.", "yellow")

    async def _on_tick(self, _: None) -> None:
        self._frame += 1
        if self.prompt is not None:
            self.prompt.tick()
        if (error := self.driver.check()) is not None and self.session.status in (Status.READY, Status.RUNNING):
            raise error
        if self.screen is not None and self.screen.prompt is None and self._has_status:
            self.screen.refresh(self.renderer.status(self._frame))
        await self.children.show_new()
        await self._show_unstopped()
        is_claimed_here = self._ready_since is not None and not self.source.is_service
        if self._frame % self.source.look == 0 or is_claimed_here:
            self._check_due = True
