"""The tools of an agent's MCP servers in one run: what is offered to the model, and what could not be.

A server is a stranger: the number, the names, the descriptions and the schemas of its tools are bounded, and a tool
that does not fit is left out with a reason.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from perdure.agent.history.transcript import Line
from perdure.agent.mcp.connection import GetWorkspace, ServerConnection, active
from perdure.agent.mcp.server import Hints, MCPServer, is_stricter
from perdure.agent.model import Offer
from perdure.agent.toolbox import AgentTool
from perdure.agent.tools.result import plain
from perdure.domain.effect import Replay
from perdure.errors import PerdureError
from perdure.ids import encode

MOST = 100  # tools of one server
DESCRIPTION = 4_000  # characters
SCHEMA = 32_000  # characters
DEEPEST = 32
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,48}")


class MCPTool(AgentTool, frozen=True):
    """A tool of a server, with the description and the schema that the server gives."""

    description: str = ""
    schema: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it

    def offer(self) -> Offer:
        return Offer(self.name, self.description, self.schema)


class Catalogue:
    """The servers of one agent during one run."""

    def __init__(self, servers: Sequence[MCPServer], workspace: GetWorkspace) -> None:
        self._connections = {one.name: ServerConnection(one, workspace) for one in servers}
        self.problems: list[str] = []

    def owns(self, tool: str) -> bool:
        return any(one.server.owns(tool) for one in self._connections.values())

    def active_in(
        self, enter: Callable[[], AbstractContextManager[None]]
    ) -> Callable[[], AbstractContextManager[None]]:
        """A context in which the tools find their connections, inside another one."""

        @contextmanager
        def both() -> Iterator[None]:
            with enter(), active(self._connections):
                yield

        return both

    async def tools(self) -> list[AgentTool]:
        """Connect to all servers and list their tools."""
        found = await asyncio.gather(*(self._tools_of(one) for one in self._connections.values()))
        return [tool for tools in found for tool in tools]

    async def _tools_of(self, connection: ServerConnection) -> list[AgentTool]:
        try:
            listed = await connection.list_tools()
        except PerdureError as error:
            self.problems.append(f"{error.message} Its tools are not available.")
            return []
        tools: dict[str, AgentTool] = {}
        for one in listed[:MOST]:
            if one.name in connection.server.rules and connection.server.rules[one.name] is None:
                continue
            if (why := _unsuitable(one, tools)) is not None:
                self.problems.append(f"A tool of the MCP server {connection.server.name} is left out: {why}.")
                continue
            made = _tool(connection.server, one)
            tools[made.name] = made
        if len(listed) > MOST:
            self.problems.append(f"The MCP server {connection.server.name} lists more than {MOST} tools.")
        return list(tools.values())

    def note(self, lines: Sequence[Line]) -> dict[str, Any] | None:
        """The line that reports the problems, unless the newest such line already does."""
        content = " ".join(self.problems)
        told = next((one.body.get("content") for one in reversed(lines) if one.body.get("about") == "mcp"), "")
        return {"role": "note", "about": "mcp", "content": content} if content and content != told else None

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in self._connections.values()))


def _unsuitable(one: Any, tools: dict[str, AgentTool]) -> str | None:
    if not _NAME.fullmatch(one.name):
        return f"its name {one.name[:60]!r} has other characters than letters, digits, _, . and -, or is too long"
    if any(there.tool.name.endswith(f".{one.name}") for there in tools.values()):
        return f"{one.name} is listed twice"
    try:
        if len(encode(one.input_schema)) <= SCHEMA and _depth(one.input_schema) <= DEEPEST:
            return None
    except (PerdureError, RecursionError, ValueError):
        pass
    return f"the schema of {one.name} is too large"


def _depth(value: Any, level: int = 1) -> int:
    if level > DEEPEST:
        return level
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max((_depth(part, level + 1) for part in parts), default=level)


def _tool(server: MCPServer, one: Any) -> MCPTool:
    said = one.annotations
    hints = Hints() if said is None else Hints(said.read_only_hint, said.destructive_hint, said.idempotent_hint)
    declared = str((server.rules.get(one.name) or {}).get("replay", "escalate"))
    tool = server.declare(one.name, tighten=is_stricter(declared, hints))
    words = plain(one.description or f"The tool {one.name} of the MCP server {server.name}.")[:DESCRIPTION]
    return MCPTool(
        tool, prepare=_prepare, serial=tool.replay is not Replay.PURE,
        description=words, schema={"type": "object"} | one.input_schema,
    )  # fmt: skip


def _prepare(arguments: dict[str, Any], _known: Any) -> dict[str, Any]:
    """The arguments of the model are one argument of the tool: their schema is the server's."""
    return {"arguments": arguments}
