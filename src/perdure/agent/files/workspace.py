"""The workspace of an agent: the folder that its tools may touch, and what they need to know of the session.

A tool calls `here()`. The ledger sets it around every act, probe and undo, in the first run and in recovery alike, so a
tool never stores a folder itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from perdure.agent.git.head import head_of
from perdure.artifacts.directory import Directory
from perdure.errors import ConfigError, NotDone

_HERE: ContextVar[Workspace | None] = ContextVar("perdure_workspace", default=None)


class Workspace:
    """The workspace of one session on this machine."""

    def __init__(
        self,
        root: Path,
        *,
        session_uid: str,
        scratch: Path | None = None,
        artifacts: Directory | None = None,
        protected: tuple[Path, ...] = (),
        network: bool = False,
        private_network: bool = False,
        unsandboxed: bool = False,
        environment: tuple[str, ...] = (),
    ) -> None:
        """`scratch` is where commands leave their output until it is stored; `protected` is what no tool may write.

        `network` lets commands and fetches reach the network, `private_network` lets fetches reach addresses that are
        not public; `unsandboxed` lets commands run where no sandbox is available. `environment` names variables that
        commands may see besides those that are known to be harmless.
        """
        self.root = root.resolve()
        self.session_uid = session_uid
        self.scratch = scratch
        self.artifacts = artifacts
        self.protected = tuple(path.resolve() for path in protected)
        self.network = network
        self.private_network = private_network
        self.unsandboxed = unsandboxed
        self.environment = environment

    def inside(self, path: str) -> Path:
        """A path from a tool call, as a real path inside the folder; nothing outside is reachable."""
        if "\0" in path:
            raise NotDone("The path contains a NUL character.")
        real = (self.root / path).resolve()
        if real.is_symlink():  # resolved as far as it goes: from Python 3.13 on, a circle of links raises nothing
            raise NotDone(f"{path} is a link that leads to itself.")
        if real != self.root and self.root not in real.parents:
            raise NotDone(f"{path} is outside the folder of this session.")
        if real.relative_to(self.root).parts[:1] == (".git",) or any(_within(real, one) for one in self.protected):
            raise NotDone(f"{path} is protected.")
        return real

    def head(self) -> dict[str, str | None] | None:
        """The branch and the commit that the folder has checked out; None outside git."""
        return head_of(self.root)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this the current workspace inside the `with` block."""
        token = _HERE.set(self)
        try:
            yield
        finally:
            _HERE.reset(token)


def _within(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def here() -> Workspace:
    """The workspace of the session whose tool is running."""
    if (found := _HERE.get()) is None:
        raise ConfigError("This tool needs the folder of an agent, and there is none here.")
    return found


def use_workspace(workspace: Workspace) -> None:
    """Make this the current workspace for the rest of this context: for a process that serves one session only."""
    _HERE.set(workspace)
