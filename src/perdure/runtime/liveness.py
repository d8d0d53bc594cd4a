"""Who is alive: each worker holds a lock for life, and the lock is asked, never a clock.

    enter     take the lock, then write the worker's row: whoever can read the row can already ask the lock
    live      hand the lock's descriptor to the commands it starts: they count as the worker while they live
    leave     give the lock back; if no child kept it, remove the file and the row

A crash before the row leaves a file that nobody asks about. A crash after it leaves a row whose lock is free: dead, at
the moment of death and however it came. A child that outlives its worker keeps the lock, so the worker is still alive:
what it was doing to the world may still be going on.

An answer is given only where it is certain, because "dead" lets somebody else act. The name of the host is not enough:
two machines or two containers may share one. So a worker also says which machine it is on and which folder its lock is
in, and a look from elsewhere answers "cannot tell".
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from errno import EPERM
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from perdure.domain.worker import Life, Worker
from perdure.errors import StoreUnavailable
from perdure.ids import boot_id, digest, host, new_name
from perdure.store import meta, migrate, worker
from perdure.store.gate import Presence, life_of
from perdure.store.store import Store

UNKNOWN = "unknown"


class Origin(msgspec.Struct, frozen=True):
    """What a start token says beside the row: when the process began, on which machine, and where its lock is."""

    began: str
    machine: str
    folder: str

    def token(self) -> str:
        return f"{self.began} {self.machine} {self.folder}"


class Presences:
    """Where the workers of one store keep their locks on this machine."""

    def __init__(self, folder: Path, *, host: str, boot_id: str, machine: str, shared: bool) -> None:
        self.folder = folder
        self.host = host
        self.boot_id = boot_id
        self.machine = machine
        self.shared = shared  # the store may be used from other machines

    def enter(self, store: Store, *, programs: Sequence[str] = (), id: str | None = None) -> Alive:
        """Take a lock for life and register the worker that this process is."""
        name = id or new_name("w")
        try:
            self._make_folder()
            presence = Presence(self.folder, name)
        except OSError as error:
            raise StoreUnavailable(f"The lock of worker {name} cannot be taken: {error.strerror}.") from error
        known = len(migrate.load(store.database.dialect))
        row = Worker(
            name, self.host, self.boot_id, os.getpid(), self._origin().token(),
            known, known, list(programs), store.clock.now(), store.clock.now(),
        )  # fmt: skip
        try:
            store.write_now(worker.register(row))
        except BaseException:
            presence.close()
            raise
        return Alive(store, presence, row)

    def life(self, one: Worker) -> Life:
        """Whether a worker, or a command that it started, still runs."""
        origin = read_token(one.start_token)
        if one.host != self.host or UNKNOWN in (one.boot_id, self.boot_id):
            return Life.CANNOT_TELL
        if one.boot_id != self.boot_id:
            certain = not self.shared or (origin.machine == self.machine != UNKNOWN)
            return Life.DEAD if certain else Life.CANNOT_TELL
        try:
            (self.folder / one.id).stat()
        except FileNotFoundError:
            return self._life_without_lock(one, origin)
        except OSError:
            return Life.CANNOT_TELL
        return life_of(self.folder, one.id)

    def _life_without_lock(self, one: Worker, origin: Origin) -> Life:
        """Its file is gone: it left in order, or we look in another folder, or somebody tidied up under it."""
        if origin.began != UNKNOWN and began(one.pid) == origin.began:
            return Life.ALIVE
        return Life.DEAD if origin.folder == identity(self.folder) != UNKNOWN else Life.CANNOT_TELL

    def sweep(self, store: Store) -> list[Worker]:
        """Forget the dead, and return them."""
        dead = [one for one in store.read_now(worker.workers) if self.life(one) is Life.DEAD]
        if dead:
            store.write_now(worker.forget([one.id for one in dead]))
        for one in dead:
            (self.folder / one.id).unlink(missing_ok=True)
        return dead

    def _make_folder(self) -> None:
        """A folder under a name that anybody may take, such as one in /tmp, must be ours alone."""
        if not self.shared:
            return
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if self.folder.parent.stat().st_uid != os.getuid():
            raise PermissionError(EPERM, f"{self.folder.parent} belongs to somebody else")

    def _origin(self) -> Origin:
        return Origin(began(os.getpid()), self.machine, identity(self.folder))


class Alive:
    """This process, as a registered worker. Close it, or use it as a context manager."""

    def __init__(self, store: Store, presence: Presence, row: Worker) -> None:
        self._store = store
        self._presence = presence
        self.worker = row

    @property
    def id(self) -> str:
        return self.worker.id

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """For `subprocess.Popen(..., pass_fds=...)`: the child then counts as this worker for as long as it lives."""
        return (self._presence.descriptor,)

    def beat(self) -> None:
        """Say that this worker is still here; if somebody forgot it meanwhile, register it again."""
        if not self._store.write_now(worker.seen(self.id)):
            self._store.write_now(worker.register(self.worker))

    def close(self) -> None:
        """Leave. While a child keeps the lock, the file and the row stay: the work is not over."""
        os.close(self._presence.descriptor)
        if life_of(self._presence.path.parent, self._presence.path.name) is Life.DEAD:
            self._presence.path.unlink(missing_ok=True)
            self._store.write_now(worker.forget([self.id]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def presences(store: Store) -> Presences:
    """The locks of an open store's workers: beside a store on this machine, else in the user's runtime folder."""
    store_id = store.read_now(meta.get, "store_id") or UNKNOWN
    return presences_at(store.folder, store_id, shared=store.database.dialect == "postgres")


def presences_at(folder: Path | None, store_id: str, *, shared: bool) -> Presences:
    place = folder / "workers" if folder is not None else runtime_folder() / store_id
    return Presences(place, host=host(), boot_id=boot_id(), machine=machine(), shared=shared)


def runtime_folder() -> Path:
    """A folder of this user's that does not outlive the machine's run."""
    if given := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(given) / "perdure"
    return Path(tempfile.gettempdir()) / f"perdure-{os.getuid()}"


def machine() -> str:
    """This machine, told from others of the same name; hashed, because the raw id is meant to stay here."""
    try:
        content = Path("/etc/machine-id").read_text().strip()
    except OSError:
        return UNKNOWN
    return digest(f"perdure {content}")[:16] if content else UNKNOWN


def began(pid: int) -> str:
    """When a process began, in ticks since the machine started: with the pid, it names one process only."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return UNKNOWN


def identity(folder: Path) -> str:
    """A folder, told from others of the same name in other containers."""
    try:
        there = folder.stat()
    except OSError:
        return UNKNOWN
    return f"{there.st_dev}:{there.st_ino}"


def read_token(token: str) -> Origin:
    parts = token.split(" ")
    return Origin(*parts) if len(parts) == 3 else Origin(UNKNOWN, UNKNOWN, UNKNOWN)
