"""The tools of one agent: what the model is offered, and which tool a call refers to.

Some arguments come from the agent and not from the model (the digest of a file when it was read), and one offered tool
may stand for two (a read-only command, and one that may change something). Both are resolved before planning.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from perdure.agent.files.workspace import Workspace
from perdure.agent.model import Offer
from perdure.errors import ConfigError, PerdureError
from perdure.ids import host
from perdure.runtime.definitions.tool import TOOLS, Gate, Tool

FilesRead = Mapping[str, str | None]  # the files that were read, with the digest that each had
Prepare = Callable[[dict[str, Any], FilesRead], dict[str, Any]]


class ToolOptions(TypedDict, total=False):
    """What a tool can be declared with; see `perdure.tool`."""

    name: str | None
    replay: str
    inflight: str | float
    timeout: str | float | None
    retry: int
    key_ttl: str | float | None
    safe_errors: tuple[type[BaseException], ...]
    targets: Sequence[str]
    leases: Sequence[str]
    gate: Gate | None
    isolate: str | None
    reach: str


_INVALID = re.compile(r"[^A-Za-z0-9_-]")  # characters that a provider refuses in a tool's name


class AgentTool(msgspec.Struct, frozen=True):
    """A tool as an agent offers it to its model."""

    tool: Tool[..., Any]
    hidden: frozenset[str] = frozenset()  # parameters that the model is not shown
    prepare: Prepare | None = None  # completes the arguments, or raises NotDone
    pick: Callable[[dict[str, Any]], Tool[..., Any]] | None = None
    kind: str = "effect"  # or "ask", a wait for a person; "child", a session of its own; "answer", the typed answer
    program: str | None = None  # for a child: the agent that does the task; None: the agent that calls it
    level: Callable[[Workspace], str] | None = None  # the sandbox that it runs in
    reattach: Callable[..., Awaitable[Any]] | None = None  # finds a process that outlived its worker, by its key
    details: Callable[[Workspace, dict[str, Any]], dict[str, Any]] | None = None  # what helps a person to judge a call
    serial: bool = False  # it changes the folder, so it runs after earlier calls and before later ones

    @property
    def name(self) -> str:
        return _INVALID.sub("_", self.tool.name)[:64]

    def offer(self) -> Offer:
        schema = self.tool.signature.json_schema()
        shown = {key: value for key, value in schema.get("properties", {}).items() if key not in self.hidden}
        required = [key for key in schema.get("required", []) if key not in self.hidden]
        described = inspect.getdoc(self.tool.function) or f"The tool {self.tool.name}."
        kept = {key: value for key, value in schema.items() if key == "$defs"}
        return Offer(self.name, described, {"type": "object", "properties": shown, "required": required} | kept)


def make_tool(function: Callable[..., Any], name: str, **declared: Any) -> Tool[..., Any]:
    """A tool that no user declares: it is not registered, and its rule has the defaults of the decorator."""
    rule = {
        "replay": "escalate", "inflight": "30s", "timeout": None, "retry": 3, "key_ttl": None, "safe_errors": (),
        "targets": (), "leases": (), "gate": None, "isolate": None, "reach": "outside",
    }  # fmt: skip
    return Tool(function, name, **rule | declared)


class Toolbox:
    """The tools of one agent, by the names that the model uses."""

    def __init__(self, tools: Iterable[Tool[..., Any] | AgentTool | str]) -> None:
        self._by_name: dict[str, AgentTool] = {}
        for given in tools:
            one = _agent_tool(given)
            if one.name in self._by_name:
                raise ConfigError(f"Two tools are offered as {one.name}.", hint="Leave one out, or rename it.")
            self._by_name[one.name] = one
        self.offers = tuple(one.offer() for one in self._by_name.values())

    def with_more(self, tools: Iterable[AgentTool]) -> Toolbox:
        """These tools and others; one whose name is taken is left out."""
        others = {one.name: one for one in tools if one.name not in self._by_name}
        return Toolbox([*self._by_name.values(), *others.values()])

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def get(self, name: str) -> AgentTool | None:
        return self._by_name.get(name)


def shipped(name: str) -> AgentTool | None:
    """A tool that ships with Perdure, by its name or by the name of its read-only variant."""
    from perdure.agent.tools.builtin_tools import SHIPPED

    return SHIPPED.get(name.split(".", 1)[0])


def call_details(workspace: Workspace, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a person needs to judge a call, besides its arguments. What cannot be found out is left out.

    It is recorded when approval is requested: only the process that runs the session can see the folder. The arguments
    decide what is done; these details are only shown.
    """
    found: dict[str, Any] = {"host": host(), "folder": str(workspace.root)}
    offered = shipped(tool)
    if offered is not None and offered.details is not None:
        try:
            with workspace.active():
                found |= offered.details(workspace, arguments)
        except (PerdureError, OSError, KeyError, TypeError, ValueError):
            pass
    return found


def is_known(name: str) -> bool:
    """Whether this process has a tool of this name."""
    return name in TOOLS or shipped(name) is not None


def _agent_tool(given: Tool[..., Any] | AgentTool | str) -> AgentTool:
    if isinstance(given, AgentTool):
        return given
    name = given if isinstance(given, str) else given.name
    if (known := shipped(name)) is not None:
        return known
    if isinstance(given, Tool):
        return AgentTool(given)
    if name not in TOOLS:
        raise ConfigError(f"No tool named {name} is loaded here.", hint="Name the module that defines it with --app.")
    return AgentTool(TOOLS[name])
