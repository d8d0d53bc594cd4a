"""Distinguishes this process from a child made by `fork()`, and closes what such a child must not keep.

A forked child has a copy of this memory, none of its threads, and the same open files. It cannot use a store: the
threads that serve it are gone, one of them may hold its locks forever, and its connections are the parent's. A
file lock belongs to the open file and not to the process, so a child would keep the parent's locks beyond its death.

    before the fork    no descriptor is between being opened and being listed here, and signals are blocked: a handler
                       that raises (Ctrl-C) in the middle of what follows would be ignored, and what follows with it
    in the child       every listed descriptor is replaced by /dev/null: the child gives up the open file without
                       unlocking it or closing a connection on behalf of the parent
    afterwards         an object that stored `generation` finds that it has changed; `check` raises an error

A descriptor's number may belong to another file by then, so each is identified by its inode as well. A program that is
started (`subprocess`) is not such a child: it inherits only the descriptors that it is given.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from perdure.errors import ForkedProcess

generation = 0  # the number of forks between the first process and this one
_noted: dict[int, tuple[int, int]] = {}
_forgotten: list[Callable[[], object]] = []
_no_fork = threading.RLock()


@contextmanager
def no_fork() -> Iterator[None]:
    """Delay a fork by another thread while a descriptor is opened and listed."""
    with _no_fork:
        yield


def leave_to_parent(descriptor: int) -> int:
    """List a descriptor that no forked child may keep, and return it. It may be closed without notice."""
    there = os.fstat(descriptor)
    _noted[descriptor] = (there.st_dev, there.st_ino)
    return descriptor


def open_for_parent(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
    """Open a file that no forked child may keep."""
    with no_fork():
        return leave_to_parent(os.open(path, flags | os.O_CLOEXEC, mode))


def forget_in_child(forget: Callable[[], object]) -> None:
    """Register a function that every forked child calls, to drop cached data about its parent."""
    _forgotten.append(forget)


def check(born: int) -> None:
    """Refuse to use what was opened in generation `born` in a child of that process."""
    if born != generation:
        raise ForkedProcess(
            f"Process {os.getpid()} is a child made by fork(), and the store was opened by its parent.",
        )


def _in_child() -> None:
    global generation
    generation += 1
    _no_fork.release()
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor, known in _noted.items():
        try:
            there = os.fstat(descriptor)
            if (there.st_dev, there.st_ino) == known:
                os.dup2(nowhere, descriptor, inheritable=False)
        except OSError:  # it was closed since
            continue
    os.close(nowhere)
    _noted.clear()
    for forget in _forgotten:
        forget()


def _signal_masks() -> tuple[Callable[[], object], Callable[[], object]]:
    """Two functions that block all signals of this thread, and restore those that were not blocked.

    They run no Python code. So a signal that arrives meanwhile has its handler run when `os.fork` has returned.
    """
    mask = ctypes.PyDLL(None).pthread_sigmask
    every, before = (ctypes.create_string_buffer(1024) for _ in range(2))
    ctypes.PyDLL(None).sigfillset(every)
    return partial(mask, signal.SIG_BLOCK, every, before), partial(mask, signal.SIG_SETMASK, before, None)


_block, _restore = _signal_masks()
# Before a fork they are called from the last to the first, and afterwards from the first to the last.
os.register_at_fork(before=_block, after_in_parent=_restore)
os.register_at_fork(before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_in_child)
os.register_at_fork(after_in_child=_restore)
