"""`Agent`: a program that a model drives.

All of its state is on record, so it can be killed at any point and resumed in another process. After an answer it waits
for the next message; with `once` it ends with its answer.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.agent.files.branch import folder_path, snapshot_folder, storage_folder
from perdure.agent.files.session_folder import open_folder
from perdure.agent.files.workspace import Workspace
from perdure.agent.history.state_reader import AgentRecords, read
from perdure.agent.ledger import AgentLedger
from perdure.agent.loop import Loop
from perdure.agent.model import Model, get_model
from perdure.agent.permissions import ask_first
from perdure.agent.settings import Limits, Settings
from perdure.agent.toolbox import AgentTool, Toolbox, is_known
from perdure.agent.tools.builtin_tools import SHIPPED
from perdure.config import configured_stores, data_folder, default_store, user_file
from perdure.domain.session import SessionRecord
from perdure.durable import make_folder
from perdure.errors import ConfigError
from perdure.runtime.definitions.program import PROGRAMS, Bound, Program
from perdure.runtime.definitions.tool import Tool
from perdure.runtime.ledger.ledger import Ledger
from perdure.runtime.ledger.policy import Intent
from perdure.runtime.run.records import Records
from perdure.runtime.run.run import Run
from perdure.runtime.workers.private_folder import runtime_folder
from perdure.store.move import StoreTransaction
from perdure.store.store import open_places, place_of

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime
    from perdure.runtime.session import Session

CONTEXT = 100_000  # tokens
DEFAULT_TOOLS = tuple(SHIPPED)
INSTRUCTIONS = """\
You are a careful software engineer working in a folder of the person you help. Look before you change anything, make
the smallest change that does what was asked, check it, and say briefly what you did and what you did not."""


class Agent(Program[[str, bool], str]):
    """A program that a model drives: `Agent("fixer", model="anthropic:…", tools=[...], instructions="...")`.

    `policy` is consulted before each effect, in addition to the runtime's policy. By default an effect that leaves the
    folder, or may leave it, needs approval.
    """

    __module__ = "perdure"

    def __init__(
        self,
        name: str,
        *,
        model: str | Model,
        tools: Iterable[Tool[..., Any] | AgentTool | str] = DEFAULT_TOOLS,
        instructions: str = INSTRUCTIONS,
        limits: Limits | dict[str, Any] | None = None,
        policy: Callable[[Intent], str] | None = ask_first,
        context: int = CONTEXT,
        parallel: int = 8,
        snapshots: bool = True,
        base_url: str | None = None,
        network: bool = False,
        unsandboxed: bool = False,
        environment: Iterable[str] = (),
    ) -> None:
        super().__init__(_drive, name)
        self.model = model
        self.tools = tuple(tools)
        self.instructions = instructions
        self.limits = limits if isinstance(limits, Limits) else limits_from(limits)
        self.policy = policy
        self.context = context
        self.parallel = parallel
        self.snapshots = snapshots
        self.base_url = base_url
        self.network = network
        self.unsandboxed = unsandboxed
        self.environment = tuple(environment)
        self.source = sys._getframe(1).f_code.co_filename
        self._toolbox: Toolbox | None = None
        _register(self)

    def bind(self, prompt: str, once: bool = False) -> Bound[str]:
        """Bind the arguments of a session."""
        return Bound(self, self.signature.bind((prompt, once), {}))

    def read(self, tx: StoreTransaction, uid: str) -> Records:
        return read(tx, uid)

    reads_messages = True

    def missing(self, session: SessionRecord) -> str | None:  # noqa: ARG002 - some agents are kept as data
        """The first tool that is offered by name and that no code in this process defines."""
        return next((one for one in self.tools if isinstance(one, str) and not is_known(one)), None)

    def ledger(self, run: Run) -> Ledger:
        settings = self.settings(run.session.arguments)  # first, so that a missing tool or key is reported early
        assert isinstance(run.records, AgentRecords)
        beside = storage_folder(run.runtime)
        home = None if run.records.folder is None else snapshot_folder(run.records.folder.repository, beside)
        place = None if run.records.folder is None else folder_path(run.records.folder, home)
        made = AgentLedger(run, self.asking(run.session), settings, home)
        made.enter = lambda root: self.workspace(run, root, beside)
        made.workspace = None if place is None else made.enter(place)
        return made.effects

    async def main(self, run: Run, ledger: Ledger) -> Any:
        agent = ledger.host
        assert isinstance(agent, AgentLedger)
        assert isinstance(run.records, AgentRecords)
        given = run.session.arguments
        await open_folder(agent, run.records)
        return await Loop(agent, run.records).live(given["prompt"], bool(given.get("once")))

    def settings(self, arguments: dict[str, Any]) -> Settings:  # noqa: ARG002 - some agents are kept as data
        """The settings of a run."""
        if self._toolbox is None:
            self._toolbox = Toolbox(self.tools)
        model = get_model(self.model, base_url=self.base_url) if isinstance(self.model, str) else self.model
        return Settings(
            model, self._toolbox, self.instructions, self.limits, self.context, self.snapshots, self.parallel
        )

    def asking(self, session: SessionRecord) -> Callable[[Intent], str] | None:  # noqa: ARG002 - as above
        """The agent's own policy for a session."""
        return self.policy

    def may(self, session: SessionRecord) -> tuple[bool, bool]:  # noqa: ARG002 - as above
        """Whether its commands may use the network, and whether they may run without a sandbox."""
        return self.network, self.unsandboxed

    def workspace(self, run: Run, root: Path, beside: Path | None) -> Workspace:
        """The folder as its tools see it. Perdure's own files are protected from them."""
        network, unsandboxed = self.may(run.session)
        return Workspace(
            root,
            session_uid=run.session.uid,
            scratch=_outside(beside, root),
            artifacts=run.runtime.values.directory,
            protected=tuple(own_files(run.runtime, root)),
            network=network,
            unsandboxed=unsandboxed,
            environment=self.environment,
        )


def _outside(beside: Path | None, root: Path) -> Path | None:
    """The folder for the output of commands: beside the store, unless commands may write there."""
    if beside is None:
        return None
    inside = beside.resolve() == root.resolve() or root.resolve() in beside.resolve().parents
    return (default_store().parent if inside else beside) / "commands"


def own_files(runtime: Runtime, root: Path) -> Iterator[Path]:
    """Perdure's own files: its folders of this user, and every store that this process knows of, with its journal.

    SQLite would play back a rollback journal that a command left beside a store. An empty one is created first, so that
    a command cannot.
    """
    top = root.resolve()
    for given in sorted(open_places() | {place for one in configured_stores() if (place := place_of(one)) is not None}):
        path = given.resolve()
        if top in path.parents and path.is_file():
            with suppress(OSError):
                os.close(os.open(f"{path}-journal", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        for file in path.parent.glob(f"{glob.escape(path.name)}*"):
            yield from _without(file, top)
    for folder in (storage_folder(runtime), data_folder(), user_file().parent, runtime_folder()):
        if folder is not None and top in folder.resolve().parents:
            make_folder(folder.resolve())  # a command could make one that is missing, and fill it
        if folder is not None and folder.is_dir():
            yield from _without(folder.resolve(), top)


def _without(folder: Path, root: Path) -> Iterator[Path]:
    """The entries of `folder` that are not on the path to `root`; the folder itself when `root` is elsewhere."""
    if root != folder and folder not in root.parents:
        yield folder
        return
    while folder != root:
        step = folder / root.relative_to(folder).parts[0]
        yield from (one for one in folder.iterdir() if one != step)
        folder = step


async def _drive(s: Session, prompt: str, once: bool = False) -> str:  # noqa: ARG001 - names are what counts
    """The signature of every agent; the agent's loop runs instead of this function."""
    raise ConfigError("An agent is run by its loop.")


def limits_from(given: dict[str, Any] | None) -> Limits:
    """Limits as they are given or stored."""
    try:
        return msgspec.convert(given or {}, Limits)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The limits are wrong: {error}.", hint="They are turns, tokens, cost and time.") from None


def _register(agent: Agent) -> None:
    """Register an agent by name, like every program. The same source file may define it again; another may not."""
    there = PROGRAMS.get(agent.name)
    if there is not None and getattr(there, "source", None) != agent.source:
        raise ConfigError(f"Two definitions are named {agent.name}.", hint="Rename one; rows refer to names.")
    PROGRAMS[agent.name] = agent
