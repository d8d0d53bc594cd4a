"""The systems that Perdure is compared with: each in an environment of its own, run through one command line.

The adapters are in `evaluation/peers/` of the source tree and not in the package, because they need `make peers`. They
do not import Perdure. A peer that is not installed is "not run", with the reason, and never "failed".
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import perdure
from perdure.errors import PerdureError
from perdure.evaluation.run.trial_process import READY, first_line, kill_group, marked

ROOT = Path(perdure.__file__).parents[2]
DONE, ASKED, KILLED = 0, 3, -signal.SIGKILL


class PeerDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What an adapter says about its system. `configurations` maps each name to what was done by hand."""

    system: str
    versions: dict[str, str]
    page: str
    substrates: list[str]
    configurations: dict[str, str]
    cannot: list[str]
    settings: dict[str, str] = {}
    server: bool = False


class Peer:
    """One adapter, and the environment that runs it."""

    def __init__(self, name: str, root: Path = ROOT) -> None:
        self.name = name
        self.script = root / "evaluation" / "peers" / f"{name}_peer.py"
        self.python = root / ".peers" / name / "bin" / "python"
        self._description: PeerDescription | None = None

    @property
    def not_run(self) -> str:
        """Why this peer cannot be run here; empty if it can."""
        if not self.python.exists():
            return f"{self.name} is not installed; `make peers ARGS={self.name}` installs it"
        try:
            self.describe()
        except PerdureError as error:
            return error.message
        return ""

    def describe(self) -> PeerDescription:
        """What it is, with the versions that are installed."""
        if self._description is None:
            done = subprocess.run(self.command("describe"), capture_output=True, text=True, check=False, timeout=120)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
                raise PerdureError(f"{self.name} is installed and does not start: {last}")
            self._description = msgspec.json.decode(done.stdout, type=PeerDescription)
        return self._description

    def command(self, word: str, **options: str | int | None) -> list[str]:
        """The command line for one process: `run`, `inspect`, `serve` or `describe`."""
        given = [(f"--{name}", str(value)) for name, value in options.items() if value is not None]
        return [str(self.python), str(self.script), word, *(part for pair in given for part in pair)]

    def start(self, **options: str | int | None) -> subprocess.Popen[str]:
        """Start the process that does the work or continues it. Its last line says how it ended."""
        return subprocess.Popen(
            self.command("run", **options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
        )

    def inspect(self, **options: str | int | None) -> dict[str, str]:
        """What its durable state says about each effect: acknowledged, unknown or absent."""
        done = subprocess.run(
            self.command("inspect", **options), capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            raise PerdureError(f"The state of {self.name} cannot be read: {done.stderr.strip()[-300:]}")
        found: dict[str, str] = msgspec.json.decode(done.stdout.splitlines()[-1])["effects"]
        return found

    @contextmanager
    def serving(self, state: Path, limit: float = READY) -> Iterator[None]:
        """The server of this peer, inside the block. One that is not ready at the limit is an error."""
        if not self.describe().server:
            yield
            return
        command = self.command("serve", state=str(state))
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0, env=marked()
        ) as server:
            assert server.stdin is not None
            try:
                line = first_line(server, f"The server of {self.name}", limit)
                answer: dict[str, Any] = msgspec.json.decode(line or "{}")
                if not answer.get("ready"):
                    raise PerdureError(f"The server of {self.name} did not start.")
                yield
            finally:
                server.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    server.wait(30)
                kill_group(server)


@cache
def peer(name: str) -> Peer:
    """The peer with this name; what it says about itself is asked once."""
    return Peer(name)


def described(name: str) -> PeerDescription | str:
    """What a peer says about itself, or why it cannot be run here."""
    return peer(name).not_run or peer(name).describe()


def find_peers(names: Sequence[str] = (), root: Path = ROOT) -> list[Peer]:
    """Every peer that has an adapter, or those with these names; none in an installation without the source tree."""
    there = sorted(path.name.removesuffix("_peer.py") for path in (root / "evaluation" / "peers").glob("*_peer.py"))
    return [Peer(name, root) for name in (names or there)]
