"""The systems under test, behind one small interface: how a process is started, and what the durable state says.

A system is named `system/substrate/configuration/durability`. Each has a command line, and a way to read, from outside
and without changing it, what its durable state says of each effect. Peers are in `peer_system`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Protocol

import msgspec

from perdure.errors import ConfigError, NotFound
from perdure.evaluation import services
from perdure.evaluation.crash import blob_worker as blob
from perdure.evaluation.workload import Trial
from perdure.testing.postgres import PostgresServer

ABSENT, UNKNOWN, ACKNOWLEDGED = "absent", "unknown", "acknowledged"
AGENT = "agent"  # the configuration of Perdure in which a model asks for the effects, and checkpoints are written


class DurableState(msgspec.Struct, frozen=True):
    """What is on disk after a kill. Two equal texts are one state: the next process cannot tell them apart.

    `said` is, for each effect, what the next process concludes: it was not begun, it is unknown, or it was done.
    """

    text: str
    said: dict[str, str]
    rows: dict[str, int] = {}  # of joint effects: how often each is in the table
    checkpoint: int = 0  # of an agent: the event up to which its newest checkpoint goes


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a process of a trial is to do, beside its work; see `worker_arguments`. The sink is in `PERDURE_SINK`."""

    ability: str
    effects: int
    inflight: float = 0.2
    verdicts: dict[str, str] = {}
    pause: str = ""
    point: str = ""
    armed: str = "middle"

    def words(self) -> list[str]:
        """As options of the command line."""
        given = {name: value for name, value in msgspec.structs.asdict(self).items() if value not in ("", {})}
        given |= {"verdicts": msgspec.json.encode(self.verdicts).decode()} if self.verdicts else {}
        return [word for name, value in given.items() for word in (f"--{name}", str(value))]


class SystemUnderTest(Protocol):
    """One system in one trial.

    A system that takes no answer of a person (`answers`) ends when it asks, which counts as a question and as no error.
    """

    versions: dict[str, str]
    answers: bool

    def command(self, options: ProcessOptions) -> list[str]:
        """The command line of a process."""
        ...

    def observe(self, effects: int) -> DurableState:
        """Read the durable state while no process runs."""
        ...

    def close(self) -> None:
        """Remove what is not in the folder of the trial."""
        ...


class BlobSystem:
    """The JSON blob."""

    answers = True

    def __init__(self, configuration: str, folder: Path) -> None:
        self.versions: dict[str, str] = {}
        self._configuration = configuration
        self._path = folder / "session.json"
        self._copies = 0

    def command(self, options: ProcessOptions) -> list[str]:
        return [
            *_command("perdure.evaluation.crash.blob_worker", str(self._path), self._configuration),
            *options.words(),
        ]

    def observe(self, effects: int) -> DurableState:
        """The blob itself is kept beside the other raw files."""
        self._copies += 1
        with suppress(FileNotFoundError):
            shutil.copy(self._path, self._path.with_name(f"at-kill-{self._copies}.json"))
        document = blob.read(self._path)
        said = {}
        for n in map(str, range(1, effects + 1)):
            begun = n in document.intents and self._configuration != blob.FORGETS
            said[n] = ACKNOWLEDGED if n in document.results else UNKNOWN if begun else ABSENT
        text = f"results {' '.join(sorted(document.results))}, intents {' '.join(sorted(document.intents))}"
        return DurableState(text, said)

    def close(self) -> None:
        """Everything is in the folder of the trial."""


class PerdureSystem:
    """A Perdure program; the substrate is another address of the store."""

    answers = True

    def __init__(self, substrate: str, configuration: str, folder: Path, server: PostgresServer | None) -> None:
        self._configuration = configuration
        self._server: PostgresServer | None = None
        self.versions = {}
        match substrate:
            case "files":
                self._address = f"files:{folder / 'store'}"
            case "sqlite":
                self._address = str(folder / "perdure.db")
                self.versions = {"sqlite": _sqlite_version()}
            case "postgres":
                self._server = server or services.postgres()
                self._address = self._server.create_database()
                self.versions = {"postgresql": self._server.install.name.removeprefix("pginstall")}
            case _:
                raise ConfigError(f"No substrate is called {substrate!r}.")

    def command(self, options: ProcessOptions) -> list[str]:
        worker = "agent_worker" if self._configuration == AGENT else "perdure_worker"
        own = _command(f"perdure.evaluation.crash.{worker}", self._address, self._configuration)
        return [*own, *options.words()]

    def observe(self, effects: int) -> DurableState:
        """Read the rows with the read-only access that `perdure doctor` uses."""
        from perdure.agent.history.state_reader import FINGERPRINT
        from perdure.evaluation.crash.perdure_worker import SESSION
        from perdure.store.inspection.read_access import locate_store, read_store
        from perdure.store.moves import checkpoint, effect, session
        from perdure.store.moves.attempt import attempts_of

        said, parts, kept = dict.fromkeys(map(str, range(1, effects + 1)), ABSENT), [], None
        with suppress(NotFound), read_store(locate_store(self._address)) as found:
            uid = session.get_by_id(found.tx, SESSION).uid
            for one in effect.of_session(found.tx, uid):
                if "n" not in one.intent:  # a call of the model
                    continue
                if one.position[0] == "undo":  # an effect of its own
                    parts.append(f"undo {one.state}")
                    continue
                n = str(one.intent["n"])
                outcomes = [attempt.outcome or "open" for attempt in attempts_of(found.tx, uid, one.id)]
                said[n] = {"dispatched": UNKNOWN, "acknowledged": ACKNOWLEDGED}.get(one.state, ABSENT)
                parts.append(f"{n} {one.state} ({' '.join(outcomes)})")
            kept = checkpoint.latest(found.tx, uid, FINGERPRINT)
        parts += ["a checkpoint"] if kept else []
        return DurableState(", ".join(parts), said, self._rows(), kept.number if kept else 0)

    def _rows(self) -> dict[str, int]:
        """The rows that joint effects have added, read without Perdure."""
        from perdure.evaluation.crash.perdure_worker import TABLE

        query = f"select n, count(*) from {TABLE} group by n"
        if self._server is not None:
            import psycopg

            with suppress(psycopg.errors.UndefinedTable), psycopg.connect(self._address) as server:
                return {str(n): number for n, number in server.execute(query).fetchall()}
        elif not self._address.startswith("files:") and Path(self._address).exists():
            import apsw

            with suppress(apsw.SQLError), closing(apsw.Connection(self._address)) as file:
                return {str(n): number for n, number in file.execute(query)}
        return {}

    def close(self) -> None:
        if self._server is not None:
            self._server.drop_database(self._address)


def find_system(trial: Trial, folder: Path, sink: str, server: PostgresServer | None = None) -> SystemUnderTest:
    """The system of one trial."""
    system, substrate, configuration, _ = trial.system.split("/")
    if system == "blob":
        return BlobSystem(configuration, folder)
    if system == "perdure":
        return PerdureSystem(substrate, configuration, folder, server)
    from perdure.evaluation.crash.peer_system import PeerSystem

    return PeerSystem(trial.system, trial.id, folder, sink, server)


def missing(name: str) -> str:
    """Why a system cannot be run here; empty if it can."""
    system, substrate, *_ = name.split("/")
    if system not in ("blob", "perdure"):
        from perdure.evaluation import peers

        if reason := peers.peer(system).not_run:
            return reason
    if substrate == "postgres":
        from perdure.testing.postgres import installed

        try:
            installed()
        except ConfigError as error:
            return error.message
    return ""


def _command(module: str, state: str, configuration: str) -> list[str]:
    return [sys.executable, "-P", "-m", module, "--state", state, "--configuration", configuration]


def _sqlite_version() -> str:
    import apsw

    return apsw.sqlite_lib_version()


@cache
def tracer() -> str | None:
    """The version of strace, or None where it cannot trace."""
    if shutil.which("strace") is None:
        return None
    done = subprocess.run(["strace", "-e", "trace=none", "true"], capture_output=True, check=False)
    if done.returncode:
        return None
    shown = subprocess.run(["strace", "-V"], capture_output=True, text=True, check=True).stdout
    return shown.splitlines()[0].rpartition(" ")[2]
