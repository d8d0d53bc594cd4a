"""The declaration of an MCP server: how to reach it, and the replay rule of each of its tools.

A tool of a server is named `mcp.SERVER.TOOL`. Its rule is what the user declares, `escalate` otherwise. What the server
says about a tool can only make the rule stricter: a server that calls its tool read-only is not believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.agent.mcp.connection import current_connection
from perdure.agent.toolbox import ToolOptions, make_tool
from perdure.agent.tools.result import ToolResult
from perdure.domain.effect import Replay
from perdure.errors import ConfigError
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.definitions.tool import TOOLS, Call, Tool, register

PREFIX = "mcp."
MICROS = 1_000_000
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_REPLAYS = (Replay.PURE, Replay.IDEMPOTENT, Replay.ESCALATE)


class MCPServer:
    """An MCP server: `MCPServer("files", command=["mcp-files", "."])`, or `MCPServer("wiki", url="https://…")`.

    `tools` declares what is known about its tools: `{"search": {"replay": "pure", "reach": "machine"}}`; None hides a
    tool. Undeclared tools are `escalate` and reach `outside`. A command runs in the sandbox of the agent's commands,
    unless `sandbox=False`; `network` lets it use the network, and `env` adds variables to its environment. `timeout`
    limits each call.
    """

    __module__ = "perdure"

    def __init__(
        self,
        name: str,
        *,
        command: Sequence[str] = (),
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        tools: Mapping[str, ToolOptions | None] | None = None,
        timeout: str | float = "60s",
        sandbox: bool = True,
        network: bool = False,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is no name for an MCP server.", hint="Use letters, digits, - and _.")
        if isinstance(command, str) or bool(command) == bool(url):
            raise ConfigError(f"MCP server {name}: give a command or a url.", hint='command=["program", "argument"]')
        self.name = name
        self.command = tuple(command)
        self.url = url
        self.headers = dict(headers or {})
        self.env = dict(env or {})
        self.rules = dict(tools or {})
        self.timeout = microseconds(timeout) / MICROS
        self.sandbox = sandbox
        self.network = network
        for tool, rule in self.rules.items():
            replay = (rule or {}).get("replay", "escalate")
            if replay not in _REPLAYS:
                raise ConfigError(
                    f"MCP server {name}: the tool {tool} cannot be {replay!r}.",
                    hint='A tool of a server is "pure", "idempotent" or "escalate".',
                )
            self.declare(tool)

    def declare(self, tool: str, *, tighten: bool = False) -> Tool[..., Any]:
        """Register one of its tools; `tighten` makes it `escalate` whatever was declared."""

        async def call_tool(call: Call, arguments: dict[str, Any]) -> ToolResult:
            return await current_connection(self.name).call(tool, arguments, call.key)

        rule: dict[str, Any] = {"timeout": None, **(self.rules.get(tool) or {})}
        made = make_tool(call_tool, f"{PREFIX}{self.name}.{tool}", **rule | ({"replay": "escalate"} if tighten else {}))
        register(TOOLS, made.name, made, call_tool)
        return made

    def declare_recorded(self, name: str) -> None:
        """Register a tool of its own that a record names and that is not known yet."""
        if self.owns(name) and name not in TOOLS:
            self.declare(name.removeprefix(f"{PREFIX}{self.name}."))

    def owns(self, tool: str) -> bool:
        """Whether a tool of this name is one of its tools."""
        return tool.startswith(f"{PREFIX}{self.name}.")

    def __repr__(self) -> str:
        return f"MCPServer({self.name!r})"


def check_servers(agent: str, servers: Iterable[MCPServer]) -> tuple[MCPServer, ...]:
    """The servers of an agent; their tools are named by them, so that two names must differ."""
    given = tuple(servers)
    for one in given:
        if not isinstance(one, MCPServer):
            raise ConfigError(f"Agent {agent}: {one!r} is no MCP server.", hint="Give perdure.MCPServer(...).")
    if len({one.name for one in given}) < len(given):
        raise ConfigError(f"Agent {agent}: two MCP servers have the same name.", hint="Rename one.")
    return given


class Hints(msgspec.Struct, frozen=True):
    """What a server says about one of its tools; None: nothing."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None


def is_stricter(declared: str, hints: Hints) -> bool:
    """Whether the hints contradict a declared rule, so that the stricter one must apply."""
    changes = hints.read_only is False or hints.destructive is True
    if declared == Replay.PURE:
        return changes
    return declared == Replay.IDEMPOTENT and hints.idempotent is False
