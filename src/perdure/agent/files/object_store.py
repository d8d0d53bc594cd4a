"""The store of snapshots: a git dir of our own, used by one process at a time.

    home/lock        held with flock during every use; the git processes inherit it, so it lives as long as they do
    home/git         our git dir: objects, excludes, attributes; single commands can read the user's objects too
    home/git/ready   made last; a git dir without it is deleted and made again
    home/folders/X   for every folder with snapshots here: its index, and the record of its last snapshot

A process that dies in the middle leaves lock files of git behind. The next holder of our lock removes them: at that
moment neither the dead process nor a git that it started is alive.

Git syncs one object after another, and never the folder that names it. So nothing is synced while a snapshot is made,
and everything is synced together before the snapshot is returned: one sync instead of fifty. After a power failure in
between, an object may exist under its name with damaged content, and git would use it. So after every boot each loose
object is checked before the first use, and a damaged one is removed: no snapshot that was returned needs it.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import subprocess
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from perdure.agent.git.command_line import Repository, run, start
from perdure.durable import make_folder, write_whole
from perdure.errors import ConfigError, NotFound, StoreUnavailable
from perdure.ids import boot_id
from perdure.process import open_for_parent
from perdure.store.writer.lock import LockRequest, holder_of

LOCK_SECONDS = 120.0  # to wait for another process that uses the same store
NO_SYNC = ("core.fsync=none",)  # for objects that are synced together afterwards
STAGING = ".perdure-restore"  # files to be moved into a folder; never part of a snapshot

CONFIG = """[core]
\trepositoryformatversion = {version}
\tbare = false
\tautocrlf = false
\tsafecrlf = false
\tfilemode = true
\tsymlinks = true
\tignorecase = false
\tprotectNTFS = false
\tprotectHFS = false
\tquotePath = false
\tlogAllRefUpdates = false
[merge]
\tdirectoryRenames = false
[extensions]
\t{format}
"""
ATTRIBUTES = (
    "* -text -ident !eol !filter !working-tree-encoding\n"  # bytes stay as they are, whatever .gitattributes says
)


class ObjectStore:
    """Our own git dir."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = home / "git"

    @contextmanager
    def lock(self, repository: Repository | None = None) -> Iterator[LockedStore]:
        """Use the git dir exclusively; it is made when it does not exist. Objects are borrowed from `repository`."""
        with lock_folder(self.home) as lock:
            if not (self.path / "ready").exists():
                self._make(lock, repository)
            store = LockedStore(self.path, lock, None if repository is None else repository.objects)
            store.remove_stale()
            store.remove_torn()
            if repository is not None:
                self._copy_excludes(repository)
            yield store

    def _make(self, lock: int, repository: Repository | None) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        form = repository.object_format if repository else "sha1"
        run(
            *("init", "--quiet", "--bare", "--template=", f"--object-format={form}", str(self.path)),
            cwd=self.home,
            keep=lock,
        )
        (self.path / "info").mkdir()
        (self.path / "objects" / "info").mkdir(exist_ok=True)
        plain = form == "sha1"
        config = CONFIG.format(version=0 if plain else 1, format="" if plain else f"objectFormat = {form}")
        write_whole(self.path / "config", config.encode())
        write_whole(self.path / "info" / "attributes", ATTRIBUTES.encode())
        write_whole(self.path / "info" / "exclude", f"{STAGING}/\n".encode())
        write_whole(self.path / "format", form.encode())
        sync_all(self.path)
        write_whole(self.path / "ready", b"")

    def _copy_excludes(self, repository: Repository) -> None:
        """Copy the repository's exclude file."""
        if (form := (self.path / "format").read_text()) != repository.object_format:
            raise ConfigError(f"The snapshots use {form} and the repository uses {repository.object_format}.")
        excludes = repository.exclude.read_bytes() if repository.exclude.is_file() else b""
        write_changed(self.path / "info" / "exclude", excludes + b"\n" + STAGING.encode() + b"/\n")


class GitView(msgspec.Struct, frozen=True):
    """A folder as git sees it with our index: `top` is where exclude rules begin, `prefix` the folder below it."""

    folder: Path
    top: Path
    prefix: str
    index: Path
    settings: tuple[str, ...] = ()


class LockedStore:
    """A git dir whose lock is held."""

    def __init__(self, path: Path, lock: int, borrowed_objects: Path | None) -> None:
        self.path = path
        self._lock = lock
        self.borrowed_objects = borrowed_objects  # the user's objects; only commands with `borrow` see them
        self.stale = False

    def git(
        self,
        *arguments: str,
        view: GitView | None = None,
        stdin: bytes = b"",
        answers: tuple[int, ...] = (0,),
        settings: tuple[str, ...] = (),
        borrow: bool = False,
    ) -> tuple[int, bytes]:
        """Run a command on our git dir; with a view, in its folder and with its index."""
        cwd, env = self._where(view)
        env |= self._borrow() if borrow else {}
        settings = (*(view.settings if view else ()), *settings)
        return run(*arguments, cwd=cwd, env=env, stdin=stdin, answers=answers, keep=self._lock, settings=settings)

    def out(
        self, *arguments: str, view: GitView | None = None, stdin: bytes = b"", settings: tuple[str, ...] = (),
        borrow: bool = False,
    ) -> bytes:  # fmt: skip
        """The output of a command that has to succeed."""
        return self.git(*arguments, view=view, stdin=stdin, settings=settings, borrow=borrow)[1]

    def start(self, *arguments: str, stdin: int) -> subprocess.Popen[bytes]:
        """Start a command whose output is read while it runs."""
        cwd, env = self._where(None)
        return start(*arguments, cwd=cwd, env=env, stdin=stdin, keep=self._lock)

    def _where(self, view: GitView | None) -> tuple[Path, dict[str, str]]:
        if view is None:
            return self.path, {"GIT_DIR": str(self.path)}
        env = {"GIT_DIR": str(self.path), "GIT_WORK_TREE": str(view.top), "GIT_INDEX_FILE": str(view.index)}
        return view.folder, env

    def _borrow(self) -> dict[str, str]:
        """Quoted, because a colon separates the folders in this variable."""
        if self.borrowed_objects is None:
            return {}
        path = str(self.borrowed_objects).replace("\\", "\\\\").replace('"', '\\"')
        return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{path}"'}

    def tree(self, name: str) -> str:
        """The tree of a snapshot, given by commit or tree."""
        if not name or set(name) - set("0123456789abcdef"):
            raise NotFound(f"{name[:40]!r} is not the name of a snapshot.")
        code, out = self.git("rev-parse", "--verify", "--quiet", f"{name}^{{tree}}", answers=(0, 1, 128))
        if code:
            raise NotFound(f"Snapshot {name[:12]} does not exist.")
        return out.decode().strip()

    def null_name(self) -> str:
        """The object name that git uses for "no object"."""
        return "0" * 2 * hashlib.new(self.object_format).digest_size

    def blob_name(self, size: int, content: Iterable[bytes]) -> str:
        """The object name of a content of this size."""
        hashing = hashlib.new(self.object_format, b"blob %d\0" % size)
        for chunk in content:
            hashing.update(chunk)
        return hashing.hexdigest()

    @property
    def object_format(self) -> str:
        """How objects are named: sha1 or sha256."""
        return (self.path / "format").read_text()

    def beside(self, path: Path) -> LockedStore:
        """Another git dir, used under the same lock."""
        return LockedStore(path, self._lock, None)

    def remove_stale(self) -> None:
        """Remove the lock files of processes that died here."""
        left = [*self.path.glob("*.lock"), *self.path.glob("refs/**/*.lock"), *self.path.glob("objects/info/*.lock")]
        left += [*self.path.glob("objects/pack/.tmp-*"), *self.path.glob("objects/pack/tmp_*")]
        left += self.path.parent.glob("folders/*/index.lock")
        for path in left:
            path.unlink(missing_ok=True)
            self.stale = True

    def remove_torn(self) -> None:
        """After a boot, remove the objects that a power failure damaged."""
        mark = self.path / "boot"
        if mark.is_file() and mark.read_text() == boot_id():
            return
        form = self.object_format
        for path in self.path.glob("objects/[0-9a-f][0-9a-f]/*"):
            try:
                whole = (
                    hashlib.new(form, zlib.decompress(path.read_bytes())).hexdigest() == path.parent.name + path.name
                )
            except zlib.error:
                whole = False
            if not whole:
                path.unlink()
                self.stale = True
        write_whole(mark, boot_id().encode())

    def sync(self) -> None:
        """Make everything durable that was written here until now, names included."""
        sync_all(self.path)


@contextmanager
def lock_folder(home: Path, name: str = "lock") -> Iterator[int]:
    """Hold a lock in this folder. Processes that must end before the next holder inherit its descriptor."""
    make_folder(home)
    lock = open_for_parent(home / name, os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not LockRequest(lock).granted_within(LOCK_SECONDS):
                raise StoreUnavailable(f"{holder_of(lock)} has used the snapshots for {LOCK_SECONDS:g} s.") from None
        yield lock
    finally:
        os.close(lock)


def signature(path: Path) -> list[int]:
    """A value that changes whenever the file changes."""
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_ino, found.st_size, found.st_mtime_ns]


def write_changed(path: Path, content: bytes) -> None:
    """Write the file, unless it holds this content already."""
    if not path.is_file() or path.read_bytes() != content:
        write_whole(path, content)


def sync_all(path: Path) -> None:
    """Make everything durable that was written to the file system of `path`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
        elif syncfs(descriptor):
            raise StoreUnavailable(f"{path} cannot be synced: {os.strerror(ctypes.get_errno())}.")
    finally:
        os.close(descriptor)
