"""The row about a session at the bottom of the screen: model, tokens, cost, context that is left, and id."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from perdure.agent.agent import CONTEXT, Agent
from perdure.agent.history import context
from perdure.agent.history.state_reader import state_of
from perdure.cli.live.screen import Screen
from perdure.cli.text.grid import columns, fitted
from perdure.cli.text.plain import safe
from perdure.domain.session import SessionRecord, Status
from perdure.runtime.definitions.program import PROGRAMS
from perdure.store.move import StoreTransaction


class SessionInfo(NamedTuple):
    """What a person wants to see of an agent's session all the time."""

    id: str
    model: str
    tokens: int
    cost_micros: int
    context_left: int | None = None  # percent

    def parts(self) -> dict[str, str]:
        """The texts to show, by name."""
        shown = {"model": self.model, "tokens": f"{self.tokens:,} tokens", "cost": format_cost(self.cost_micros)}
        if self.context_left is not None:
            shown["context"] = f"{self.context_left} % context left"
        return {name: text for name, text in (shown | {"session": self.id}).items() if text}

    def line(self, width: int, *, dot: str = " · ") -> str:
        """One row. Where it is narrow, the less important parts are left out."""
        parts = self.parts()
        for name in ("context", "tokens", "model", "cost"):
            if columns(dot.join(parts.values())) <= width:
                break
            parts.pop(name, None)
        return fitted(safe(dot.join(parts.values())), width).rstrip()


class ReadInfo(Protocol):
    """Reads the information about a session, with what is left of the context if that is asked for."""

    async def __call__(self, found: SessionRecord, *, with_context: bool) -> SessionInfo: ...


class SessionInfoRow:
    """Keeps the row of a screen up to date. The context is read again when the session rests."""

    def __init__(self, read: ReadInfo, screen: Screen) -> None:
        self._read = read
        self._screen = screen
        self._seen: tuple[int, str] | None = None
        self._context: int | None = None

    async def update(self, found: SessionRecord) -> None:
        """Show what has changed."""
        if self._seen == (found.cursor, found.status) or not self._screen.draws:
            return
        self._seen = found.cursor, found.status
        info = await self._read(found, with_context=found.status == Status.WAITING)
        self._context = self._context if info.context_left is None else info.context_left
        shown, dot = info._replace(context_left=self._context), " · " if self._screen.speaks_unicode else ", "
        self._screen.info = lambda width: shown.line(width, dot=dot)
        self._screen.redraw()


def read_info(tx: StoreTransaction, found: SessionRecord, *, with_context: bool) -> SessionInfo:
    """The information about an agent's session. The context is read from its transcript, which takes longer."""
    left = context_left(tx, found) if with_context else None
    return SessionInfo(found.id, model_name(found), found.tokens_in + found.tokens_out, found.cost_micros, left)


def model_name(found: SessionRecord) -> str:
    """The model that answers next: chosen by a person, or named by the agent."""
    agent = PROGRAMS.get(found.program)
    own = agent.model if isinstance(agent, Agent) else ""
    stored = found.arguments.get("model") if isinstance(found.arguments, dict) else None
    name = found.model or stored or (own if isinstance(own, str) else own.name)
    provider, colon, model = str(name).partition(":")
    return provider + colon + model.rpartition("/")[2] if provider == "scripted" else str(name)


def context_left(tx: StoreTransaction, found: SessionRecord) -> int:
    """About how many percent of the transcript that a model is shown are free, before it is summarized."""
    agent = PROGRAMS.get(found.program)
    stored = found.arguments.get("context") if isinstance(found.arguments, dict) else None
    most = stored or (agent.context if isinstance(agent, Agent) else CONTEXT)
    return max(0, 100 - 100 * context.tokens(state_of(tx, found)[0].lines) // int(most))


def format_cost(micros: int) -> str:
    return f"${micros / 1_000_000:.4f}" if micros else ""


def cost_lines(found: SessionRecord) -> list[str]:
    """What the model calls of a session took, for a person."""
    price = format_cost(found.cost_micros) or "$0, or the price of the model is unknown"
    return [
        f"tokens in   {found.tokens_in:,}",
        f"tokens out  {found.tokens_out:,}",
        f"cost        {price}",
    ]
