"""Files that a child made by `fork()` has inherited through SQLite, and that it must not open or close.

SQLite keeps one record of locks for each open file of a process, and believes that record. A forked child has a copy of
it, but none of the locks: the kernel leaves them with the parent. Two things would lose data in the child:

    open     SQLite finds that it holds the lock which says that the file is in use, and takes none. When the parent
             closes the file as the last user that can be seen, it removes the WAL under the child, and commits of the
             child that were acknowledged are gone.
    close    SQLite rolls back what the parent has begun, in the index of the WAL, whose memory both share.

So the child refuses to open such a file, and never closes a connection of its parent, not even when it exits.
"""

from __future__ import annotations

import ctypes
import os
import stat

import apsw

from perdure import process
from perdure.errors import ForkedProcess
from perdure.store.databases.sqlite.opened_files import identity_of

_inherited: set[tuple[int, int]] = set()  # the files that were open when this process was forked
USUAL_LIMIT = 1024  # descriptors that are looked at where the system does not list them


def check_not_inherited(path: str) -> None:
    """Refuse to open a file that the parent of this process had open when it forked."""
    if _inherited and identity_of(path) in _inherited:
        raise ForkedProcess(
            f"Process {os.getpid()} is a child made by fork(), and its parent had {path} open: SQLite would use it "
            "without locks here.",
        )


def _in_child() -> None:
    for db in apsw.connections():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))  # never zero, so that nothing ever closes it
    _inherited.update(_open_files())


def _open_files() -> set[tuple[int, int]]:
    try:
        descriptors = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        descriptors = list(range(USUAL_LIMIT))
    found = set()
    for descriptor in descriptors:
        try:
            there = os.fstat(descriptor)
        except OSError:  # it was closed since, such as that of the listing
            continue
        if stat.S_ISREG(there.st_mode):
            found.add((there.st_dev, there.st_ino))
    return found


process.forget_in_child(_in_child)
