"""Liveness: each worker holds a file lock until it ends. The lock decides whether it is alive, never a clock.

    enter     take the lock, then write the worker's row: a process that can read the row can already test the lock
    run       hand the lock's descriptor to the commands it starts: they count as the worker while they run
    leave     give the lock back; if no child kept it, remove the file and the row

A crash before the row leaves a file that is never tested. A crash after it leaves a row whose lock is free: the worker
is dead from that moment, whatever ended it. A child that outlives its worker keeps the lock, so the worker counts as
alive: its act on the outside world may still be under way.

An answer is given only where it is certain, because "dead" lets another worker act. Two machines or two containers may
share their host name, their process numbers and even the start times of their processes, so names are compared last:

    the lock        on the same boot, in the same folder: it alone decides. The folder is known by a random id in it
    the process     the lock file is gone: machine, pid namespace, pid and start time together name one process
    an earlier boot of this very machine: dead
    anything less   "cannot tell", and the lease decides after its time
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from perdure.domain.worker import Liveness, WorkerRecord
from perdure.errors import StoreUnavailable
from perdure.ids import boot_id, digest, host, new_name, new_uid
from perdure.runtime.workers.private_folder import runtime_folder
from perdure.store import migrate
from perdure.store.moves import meta, worker
from perdure.store.store import SERVICE, Store
from perdure.store.writer.lock import Presence, life_of

UNKNOWN = "unknown"
REMOTE = "remote"
FOLDER_ID = ".folder"
FIRST_NAMESPACE = "4026531836"  # the kernel's own number for the pid namespace of the machine itself


class ProcessOrigin(msgspec.Struct, frozen=True):
    """What a start token adds to the row: when the process started, on which machine, the folder of its lock, and the
    namespace of its pid."""

    start_time: str
    machine: str
    folder: str
    namespace: str = UNKNOWN
    reach: str = ""  # `remote`: its host name may be that of another machine, also on a store of one machine

    def token(self) -> str:
        return f"{self.start_time} {self.machine} {self.folder} {self.namespace} {self.reach}".rstrip()


class WorkerLocks:
    """The locks of one store's workers on this machine."""

    def __init__(
        self, folder: Path, *, host: str, boot_id: str, machine: str, shared: bool, namespace: str = UNKNOWN,
        remote: bool = False,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.host = host
        self.boot_id = boot_id
        self.machine = machine
        self.namespace = namespace
        self.shared = shared  # the store may be used from other machines
        self.remote = remote  # this process reaches the store by a service, perhaps from another machine

    def enter(
        self, store: Store, *, programs: Sequence[str] = (), id: str | None = None, **about: Any
    ) -> RegisteredWorker:
        """Take a lock until this process ends, and register it as a worker. `about` is more of its row."""
        name = id or new_name("w")
        try:
            self._make_folder()
            presence = Presence(self.folder, name)
        except OSError as error:
            raise StoreUnavailable(f"The lock of worker {name} cannot be taken: {error.strerror}.") from error
        steps = migrate.load("sqlite" if store.database.dialect == "sqlite" else "postgres")
        row = WorkerRecord(
            name, self.host, self.boot_id, os.getpid(), self._origin().token(),
            migrate.needed(steps), len(steps), list(programs), store.clock.now(), store.clock.now(),
            machine=self.machine, **about,
        )  # fmt: skip
        try:
            store.write_now(worker.register(row))
        except BaseException:
            presence.close()
            raise
        return RegisteredWorker(store, presence, row)

    def life(self, one: WorkerRecord) -> Liveness:
        """Whether a worker, or a command that it started, still runs."""
        origin = read_token(one.start_token)
        if UNKNOWN in (one.boot_id, self.boot_id):
            return Liveness.CANNOT_TELL
        if one.boot_id != self.boot_id:
            return self._life_of_other_boot(one, origin)
        in_this_folder = origin.folder != UNKNOWN and origin.folder in (folder_id(self.folder), identity(self.folder))
        try:
            (self.folder / one.id).stat()
        except FileNotFoundError:
            return self._life_without_lock(one, origin, in_this_folder)
        except OSError:
            return Liveness.CANNOT_TELL
        if not in_this_folder:  # a copy of its lock file, which was never locked
            return self._life_without_lock(one, origin, in_this_folder)
        return life_of(self.folder, one.id)

    def _life_of_other_boot(self, one: WorkerRecord, origin: ProcessOrigin) -> Liveness:
        """Of this machine: dead. The machine id is trusted outside containers only, because images carry one along."""
        if not self.shared and not origin.reach and one.host == self.host:
            return Liveness.DEAD
        same = origin.machine == self.machine != UNKNOWN and origin.namespace == self.namespace == FIRST_NAMESPACE
        return Liveness.DEAD if same else Liveness.CANNOT_TELL

    def _life_without_lock(self, one: WorkerRecord, origin: ProcessOrigin, in_this_folder: bool) -> Liveness:
        """Its file is gone: it left in order, this is another folder, or a user removed the file.

        A process that is gone is dead only where its lock file would be: elsewhere a command of it may keep the lock.
        """
        same = (origin.machine, origin.namespace) == (self.machine, self.namespace) and self.namespace != UNKNOWN
        if not same or origin.start_time == UNKNOWN:
            return Liveness.CANNOT_TELL
        started_at = start_time(one.pid)
        if started_at == origin.start_time:
            return Liveness.ALIVE
        return Liveness.DEAD if in_this_folder and (started_at != UNKNOWN or is_gone(one.pid)) else Liveness.CANNOT_TELL

    def _make_folder(self) -> None:
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        make_folder_id(self.folder)

    def _origin(self) -> ProcessOrigin:
        reach = REMOTE if self.remote else ""
        return ProcessOrigin(start_time(os.getpid()), self.machine, folder_id(self.folder), self.namespace, reach)


class RegisteredWorker:
    """This process, as a registered worker. Close it, or use it as a context manager."""

    def __init__(self, store: Store, presence: Presence, row: WorkerRecord) -> None:
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

    def close(self, *, acting: bool = False) -> None:
        """Leave. While a child keeps the lock, the file and the row stay: the work is not over.

        Nor is it while this process is `acting`: then the lock is kept until the process ends.
        """
        if acting:
            return
        os.close(self._presence.descriptor)
        if life_of(self._presence.path.parent, self._presence.path.name) is Liveness.DEAD:
            self._presence.path.unlink(missing_ok=True)
            self._store.write_now(worker.forget([self.id]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def locks_of_store(store: Store) -> WorkerLocks:
    """The locks of an open store's workers: beside a store on this machine, else in the user's runtime folder."""
    store_id = store.read_now(meta.get, "store_id") or UNKNOWN
    return locks_at(
        store.folder, store_id, shared=store.database.dialect != "sqlite", remote=store.database.dialect == SERVICE
    )


def locks_at(folder: Path | None, store_id: str, *, shared: bool, remote: bool = False) -> WorkerLocks:
    place = folder / "workers" if folder is not None else runtime_folder() / store_id
    return WorkerLocks(
        place, host=host(), boot_id=boot_id(), machine=machine(), shared=shared, namespace=pid_namespace(),
        remote=remote,
    )  # fmt: skip


def machine() -> str:
    """The id of this machine, which distinguishes it from others of the same name. Hashed: the raw id is private."""
    try:
        content = Path("/etc/machine-id").read_text().strip()
    except OSError:
        return UNKNOWN
    return digest(f"perdure {content}")[:16] if content else UNKNOWN


def pid_namespace() -> str:
    """The namespace of process numbers: two containers have two, and each may have a process 1."""
    try:
        return os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]")
    except OSError:
        return UNKNOWN


def start_time(pid: int) -> str:
    """When a process started, in ticks since boot; unknown if /proc belongs to another namespace."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return UNKNOWN
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return UNKNOWN


def is_gone(pid: int) -> bool:
    """Whether there is certainly no process with this number; a hidden one is not gone."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def folder_id(folder: Path) -> str:
    """The id of a folder, which distinguishes it from folders of the same name in other containers, and from copies.

    The file names its own inode, so that a copy of it does not count.
    """
    try:
        with open(folder / FOLDER_ID) as file:
            id, inode = file.read().split()
            return id if inode == str(os.fstat(file.fileno()).st_ino) else UNKNOWN
    except (OSError, ValueError):
        return UNKNOWN


def make_folder_id(folder: Path) -> None:
    """Give a folder its id, once. The folder is locked meanwhile, so that two workers cannot give it two ids."""
    if folder_id(folder) != UNKNOWN:
        return
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        if folder_id(folder) == UNKNOWN:
            fresh = folder / f"{FOLDER_ID}-{new_uid()}"
            with open(fresh, "x") as file:
                file.write(f"{new_uid()} {os.fstat(file.fileno()).st_ino}")
            fresh.replace(folder / FOLDER_ID)
    finally:
        os.close(place)


def identity(folder: Path) -> str:
    """The id of a folder as older versions recorded it."""
    try:
        there = folder.stat()
    except OSError:
        return UNKNOWN
    return f"{there.st_dev}:{there.st_ino}"


def read_token(token: str) -> ProcessOrigin:
    parts = token.split(" ")
    return ProcessOrigin(*parts) if len(parts) in (3, 4, 5) else ProcessOrigin(UNKNOWN, UNKNOWN, UNKNOWN)
