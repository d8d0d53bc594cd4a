"""`Agent`: a program that a model drives.

All of its state is on record, so it can be killed at any point and resumed in another process. After an answer it waits
for the next message; with `once` it ends with its answer.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Unpack, overload

import msgspec

from perdure.agent.call_report import bounded
from perdure.agent.commands.live_output import output_reader
from perdure.agent.commands.own_files import own_files, scratch_folder
from perdure.agent.files.branch import folder_path, snapshot_folder, storage_folder
from perdure.agent.files.session_folder import open_folder
from perdure.agent.files.workspace import Workspace
from perdure.agent.history.state_reader import AgentRecords, origins_of, read
from perdure.agent.history.transcript import RETRIED
from perdure.agent.ledger import AgentLedger
from perdure.agent.loop import Loop
from perdure.agent.mcp.catalogue import Catalogue
from perdure.agent.mcp.connection import check_installed
from perdure.agent.mcp.server import MCPServer, check_servers
from perdure.agent.model import Model, get_model, provider_of
from perdure.agent.output import final_answer
from perdure.agent.output.agent_result import AgentResult, result_of, runtime_for
from perdure.agent.output.run_stream import run_stream
from perdure.agent.permissions import ask_first, own_policy
from perdure.agent.settings import Limits, Settings
from perdure.agent.toolbox import AgentTool, Toolbox, ToolOptions, is_known, make_tool
from perdure.agent.tools.builtin_tools import SHIPPED
from perdure.domain.literals import PolicyAnswer
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, NotDone
from perdure.runtime.definitions.program import PROGRAMS, Bound, OutputReader, Program
from perdure.runtime.definitions.prompt import Prompt, prompt_content
from perdure.runtime.definitions.tool import Tool, tool
from perdure.runtime.ledger.ledger import Ledger
from perdure.runtime.ledger.policy import Intent
from perdure.runtime.policy.objections import OwnPolicy
from perdure.runtime.run.records import Records
from perdure.runtime.run.run import Run
from perdure.runtime.stream.events import StreamEvent
from perdure.store.move import StoreTransaction

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from perdure.runtime.runtime import Runtime
    from perdure.runtime.session import Session

    T = TypeVar("T", default=str)
    X = TypeVar("X")
else:
    from typing import TypeVar

    T = TypeVar("T")
    X = TypeVar("X")

Q = ParamSpec("Q")
CONTEXT = 100_000  # tokens
DEFAULT_TOOLS = tuple(SHIPPED)
INSTRUCTIONS = """\
You are a careful software engineer working in a folder of the person you help. Look before you change anything, make
the smallest change that does what was asked, check it, and say briefly what you did and what you did not."""


class Agent(Program[[Prompt, bool], T]):
    """A program that a model drives: `Agent("fixer", model="anthropic:…", tools=[...], instructions="...")`.

    `output` is the type of its answer: text, or a type whose value the model must deliver. `policy` is consulted before
    each effect, in addition to the runtime's policy. By default an effect that leaves the folder, or may leave it,
    needs approval. `mcp` are servers whose tools it is offered.
    """

    __module__ = "perdure"

    def __init__(
        self,
        name: str,
        *,
        model: str | Model,
        tools: Iterable[Tool[..., Any] | AgentTool | str] = DEFAULT_TOOLS,
        instructions: str = INSTRUCTIONS,
        output: type[T] = str,  # type: ignore[assignment]  # the default of T
        limits: Limits | dict[str, Any] | None = None,
        policy: Callable[[Intent], PolicyAnswer] | None = ask_first,
        context: int = CONTEXT,
        parallel: int = 8,
        snapshots: bool = True,
        base_url: str | None = None,
        network: bool = False,
        unsandboxed: bool = False,
        environment: Iterable[str] = (),
        mcp: Iterable[MCPServer] = (),
    ) -> None:
        super().__init__(_agent_function(name, output), name)
        self.model = model
        self.tools = tuple(tools)
        self.instructions = instructions
        self.output = output
        self.limits = limits if isinstance(limits, Limits) else limits_from(limits)
        self.policy = policy
        self.context = context
        self.parallel = parallel
        self.snapshots = snapshots
        self.base_url = base_url
        self.network = network
        self.unsandboxed = unsandboxed
        self.environment = tuple(environment)
        self.mcp = check_servers(name, mcp)
        self.source = _caller_file()
        self._toolbox: Toolbox | None = None
        _register(self)

    _INTERNAL = Program._INTERNAL | {"source", "settings", "asking", "may", "workspace"}

    def bind(self, prompt: Prompt, once: bool = False) -> Bound[T]:
        """Bind the arguments of a session. A prompt is a text, or a list of texts, paths and files."""
        content, files = prompt_content(prompt)
        return Bound(self, self.signature.bind((content, once), {}), files)

    async def run(
        self,
        prompt: Prompt,
        *,
        id: str | None = None,
        store: str | Path | None = None,
        runtime: Runtime | None = None,
        owner: str | None = None,
        repository: str | Path | None = None,
        title: str | None = None,
    ) -> AgentResult[T]:
        """Run a session of one answer here, in a store or in an open runtime.

        The same id again continues that session, and returns its recorded answer once it has ended. Raises
        `SessionWaiting` when only a person can continue it, and `SessionFailed`.
        """
        async with runtime_for(store, runtime) as rt:
            bound = self.bind(prompt, once=True)
            session = await rt.start(bound, id=id, owner=owner, repository=repository, title=title)
            return await result_of(rt, await rt.complete(session.id))

    async def stream(
        self,
        prompt: Prompt,
        *,
        id: str | None = None,
        store: str | Path | None = None,
        runtime: Runtime | None = None,
        owner: str | None = None,
        repository: str | Path | None = None,
        title: str | None = None,
    ) -> AsyncGenerator[StreamEvent, None]:
        """The same as `run`, as a stream of typed events: `async for event in agent.stream("...")`.

        Leaving the stream early stops the run here and leaves the session as it is; the same id continues it.
        """
        async with runtime_for(store, runtime) as rt:
            bound = self.bind(prompt, once=True)
            session = await rt.start(bound, id=id, owner=owner, repository=repository, title=title)
            async with aclosing(run_stream(rt, session.uid)) as events:
                async for event in events:
                    yield event

    @overload
    def tool(self, function: Callable[Q, X], /) -> Tool[Q, X]: ...

    @overload
    def tool(self, **declared: Unpack[ToolOptions]) -> Callable[[Callable[Q, X]], Tool[Q, X]]: ...

    def tool(self, function: Any = None, /, **declared: Any) -> Any:  # type: ignore[misc]  # mypy misreads Unpack
        """Declare a tool, as `@tool` does, and offer it to this agent: `@agent.tool` or `@agent.tool(replay="pure")`.

        Tools are declared before the agent runs; a run that has begun does not offer them.
        """

        def declare(function: Callable[..., Any]) -> Tool[..., Any]:
            made: Tool[..., Any] = tool(**declared)(function)
            others = [one for one in self.tools if (one if isinstance(one, str) else one.name) != made.name]
            self.tools, self._toolbox = (*others, made), None
            return made

        return declare if function is None else declare(function)

    def as_tool(self, name: str | None = None, description: str | None = None) -> AgentTool:
        """This agent as a tool of another: each call is a session of its own, whose answer is the result of the call.

        It works in the folder of its parent, and is cancelled with it.
        """

        def delegate(task: str) -> str:  # noqa: ARG001 - names are what counts
            raise NotDone("Only an agent can give a task to a sub-agent; the tool cannot be called directly.")

        delegate.__doc__ = description or f"Let the agent {self.name} do a task, and return its answer."
        return AgentTool(
            make_tool(delegate, name or self.name, replay="pure", reach="none"), kind="child", program=self.name
        )

    @property
    def reader(self) -> Callable[[StoreTransaction, str], Records]:
        return read

    def prepare(self, records: Records) -> None:
        for effect in records.effects.values():
            for server in self.mcp:
                server.declare_recorded(effect.tool)

    def output_reader(self, runtime: Runtime, uid: str) -> OutputReader:
        return output_reader(runtime, uid)

    reads_messages = True

    def missing(self, session: SessionRecord) -> str | None:  # noqa: ARG002 - some agents are kept as data
        """The first tool that is offered by name and that no code in this process defines."""
        return next((one for one in self.tools if isinstance(one, str) and not is_known(one)), None)

    def ledger(self, run: Run) -> Ledger:
        chosen, given = run.session.model, run.session.arguments
        settings = self.settings(given, chosen)  # first, so that a missing tool or key is reported early
        assert isinstance(run.records, AgentRecords)
        beside = storage_folder(run.runtime)
        home = None if run.records.folder is None else snapshot_folder(run.records.folder.repository, beside)
        place = None if run.records.folder is None else folder_path(run.records.folder, home)
        made = AgentLedger(run, self.own_policy(run.session), settings, home)
        made.enter = lambda root: self.workspace(run, root, beside)
        made.read_origins = lambda: origins_of(run.records)
        made.open_model = lambda name: self.open_model(name, given)
        made.workspace = None if place is None else made.enter(place)
        if self.mcp:
            check_installed()
            made.mcp = Catalogue(self.mcp, lambda path: made.workspace or made.enter(path))
            run.closing.append(made.mcp.close)
        return made.effects

    async def main(self, run: Run, ledger: Ledger) -> Any:
        agent = ledger.host
        assert isinstance(agent, AgentLedger)
        assert isinstance(run.records, AgentRecords)
        given = run.session.arguments
        await open_folder(agent, run.records)
        if agent.mcp is not None:
            offered = await agent.mcp.tools()
            agent.settings = msgspec.structs.replace(agent.settings, toolbox=agent.settings.toolbox.with_more(offered))
        answer = await Loop(agent, run.records).live(given["prompt"], bool(given.get("once")))
        return self.signature.decode_result(answer) if agent.settings.typed else answer

    def retry_lines(self, error: Any) -> list[dict[str, Any]]:
        why = error.get("message") if isinstance(error, dict) else None
        said = f"The session failed: {why or 'for an unknown reason.'} A person has started it again. Continue."
        return [{"role": "note", "about": RETRIED, "content": bounded(said)}]

    def open_model(self, name: str, arguments: dict[str, Any]) -> Model:  # noqa: ARG002 - some agents are kept as data
        """A model that a person chose instead of the agent's own; its provider's address stays."""
        own = self.model if isinstance(self.model, str) else ""
        return get_model(name, base_url=self.base_url if provider_of(name) == provider_of(own) else None)

    def settings(self, arguments: dict[str, Any], chosen: str | None = None) -> Settings:
        """The settings of a run; `chosen` is the model that a person chose."""
        typed, words = self.output is not str, self.instructions
        if self._toolbox is None:
            answer = [final_answer.final_answer_tool(self.output)] if typed else []
            self._toolbox = Toolbox([*self.tools, *answer])
        own = chosen or self.model
        model = self.open_model(own, arguments) if isinstance(own, str) else own
        words = f"{words}\n\n{final_answer.INSTRUCTIONS}" if typed else words
        return Settings(
            model, self._toolbox, words, self.limits, self.context, self.snapshots, self.parallel, typed=typed
        )

    def asking(self, session: SessionRecord) -> Callable[[Intent], str] | None:  # noqa: ARG002 - as above
        """The agent's own policy for a session."""
        return self.policy

    def own_policy(self, session: SessionRecord) -> OwnPolicy:
        return own_policy(self.asking(session))

    def may(self, session: SessionRecord) -> tuple[bool, bool]:  # noqa: ARG002 - as above
        """Whether its commands may use the network, and whether they may run without a sandbox."""
        return self.network, self.unsandboxed

    def workspace(self, run: Run, root: Path, beside: Path | None) -> Workspace:
        """The folder as its tools see it. Perdure's own files are protected from them."""
        network, unsandboxed = self.may(run.session)
        return Workspace(
            root,
            session_uid=run.session.uid,
            scratch=scratch_folder(beside, root),
            artifacts=run.runtime.values.directory,
            protected=tuple(own_files(run.runtime, root)),
            network=network,
            unsandboxed=unsandboxed,
            environment=self.environment,
        )


def _agent_function(name: str, output: Any) -> Callable[..., Coroutine[Any, Any, Any]]:
    """A function with the signature of an agent; the agent's loop runs instead of it."""

    async def agent(s: Session, prompt: str, once: bool = False) -> Any:  # noqa: ARG001 - names are what counts
        raise ConfigError("An agent is run by its loop.")

    agent.__annotations__ = {"prompt": str | list[dict[str, Any]], "once": bool, "return": output}
    agent.__name__ = agent.__qualname__ = name
    return agent


def _caller_file() -> str:
    """The file that declares an agent; `Agent[Type](...)` goes through `typing`."""
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__") == "typing" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename


def limits_from(given: dict[str, Any] | None) -> Limits:
    """Limits as they are given or stored."""
    try:
        return msgspec.convert(given or {}, Limits)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The limits are wrong: {error}.", hint="They are turns, tokens, cost and time.") from None


def _register(agent: Agent[Any]) -> None:
    """Register an agent by name, like every program. The same source file may define it again; another may not."""
    there = PROGRAMS.get(agent.name)
    if there is not None and getattr(there, "source", None) != agent.source:
        raise ConfigError(f"Two definitions are named {agent.name}.", hint="Rename one; rows refer to names.")
    PROGRAMS[agent.name] = agent
