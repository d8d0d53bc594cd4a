"""The child sessions of a session at a terminal: each is shown indented, line by line.

They are not part of a JSON stream, where an object would not tell which session it belongs to. Attach to the child
instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from perdure.cli.live.screen import KEEP, Screen
from perdure.cli.live.session_renderer import Renderer, conversation_renderer, is_agent, log_renderer
from perdure.cli.text.plain import safe
from perdure.domain.event import Event
from perdure.runtime.runtime import Runtime
from perdure.store.moves import event as events


class NestedScreen(Screen):
    """A part of another screen, indented behind a mark."""

    def __init__(self, outer: Screen) -> None:
        super().__init__(outer.console)
        self._outer = outer
        self._mark = "  │ " if outer.speaks_unicode else "  | "

    @property
    def width(self) -> int:
        return max(20, self._outer.width - len(self._mark))

    def line(self, text: str | Text = "", style: str = "") -> None:
        shown = text if isinstance(text, Text) else Text(safe(text, keep=KEEP), style)
        for row in shown.split("\n", allow_blank=True):
            self._outer.line(Text(self._mark, "dim").append_text(row))


class ChildSessions:
    """The descendants that have not ended. Without a screen, nothing is shown."""

    def __init__(self, runtime: Runtime, screen: Screen | None) -> None:
        self._runtime = runtime
        self._screen = screen
        self._open: dict[str, tuple[Renderer, Screen]] = {}

    async def event(self, event: Event) -> None:
        """An event of the session itself: a child starts, or a wait is resolved, before which the child is shown."""
        if self._screen is not None:
            await self._open_child(event, self._screen)
            if event.kind == "wait.resolved":
                await self.show_new()

    async def show_new(self) -> None:
        """Show the new events of all children."""
        for uid in list(self._open):
            await self._catch_up(uid)

    async def _open_child(self, event: Event, screen: Screen) -> None:
        uid = _child(event)
        if uid is None or uid in self._open:
            return
        view, inset = await self._runtime.get(uid), NestedScreen(screen)
        store = self._runtime.store
        if await store.read(is_agent, view):
            self._open[uid] = conversation_renderer(inset, store.clock.now, 0), inset
        else:
            self._open[uid] = log_renderer(inset, store, uid, 0), inset
        await self._catch_up(uid)

    async def _catch_up(self, uid: str) -> None:
        renderer, screen = self._open[uid]
        while page := await self._runtime.store.read(events.after, uid, renderer.number):
            for event in page:
                await renderer.event(event)
                await self._open_child(event, screen)
                if event.kind == "session.finished":
                    self._open.pop(uid, None)


def _child(event: Event) -> str | None:
    """The uid of a child that a session starts to wait for."""
    if event.kind != "wait.opened" or not isinstance(event.body, Mapping):
        return None
    rows = (event.body.get("rows") or {}).get("wait") or {}
    row = rows[0] if isinstance(rows, list) else rows
    return str(row["ref"]) if row.get("kind") == "child" and row.get("ref") else None
