"""Tasks of the disk-fault tests of text files: calls of `os` that fail, and what the store answered."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock

from perdure.errors import CommitUnknown, PerdureError, StoreFull, StoreUnavailable
from perdure.store.moves import event, session
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from perdure.testing.sweep.fork_process import Channel
from tests.crash.support.power_loss_tasks import begin, numbers
from tests.crash.support.verdict import examine


@contextmanager
def failing(name: str, code: int, *, times: int = 1, after: int = 0) -> Iterator[None]:
    """Calls of `os.name` fail: the next `times`, once `after` calls have worked. A failing write writes half."""
    real: Callable[..., Any] = getattr(os, name)
    calls = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if not after < calls <= after + times:
            return real(*args, **kwargs)
        if name == "write":
            real(args[0], bytes(args[1])[: len(args[1]) // 2])
        raise OSError(code, os.strerror(code))

    setattr(os, name, call)
    try:
        yield
    finally:
        setattr(os, name, real)


class TextFileStore:
    """A store in text files with two sessions."""

    def __init__(self, folder: str) -> None:
        self.target = f"files:{folder}/store"
        self.store = open_store(self.target, clock=ManualClock())
        self.holders = begin(self.store, ("first", "second"))

    def note(self, number: int) -> int:
        return self.store.write_now(event.append(self.holders[0], "note", {"n": number}))

    def refused(self, kind: type[PerdureError], call: Callable[[], Any]) -> list[str]:
        try:
            answer = call()
        except PerdureError as error:
            return [] if type(error) is kind else [f"{error!r} instead of {kind.__name__}"]
        except Exception as error:
            return [f"{error!r} instead of {kind.__name__}"]
        return [f"{answer!r} instead of {kind.__name__}"]

    def reopen(self) -> Store:
        self.store.close()
        self.store = open_store(self.target, clock=ManualClock())
        return self.store

    def problems(self, *allowed: list[int]) -> list[str]:
        """What differs from the answers, now and after opening again; then the store continues."""
        found = []
        for _ in range(2):
            there = self.store.read_now(numbers, self.holders[0].uid)
            found += [] if there in allowed else [f"there is {there}"]
            allowed = (there,)
            self.reopen()
        self.note(1000)
        for holder in self.holders:
            for sentences in self.store.read_now(examine, holder.uid).values():
                found += sentences
        self.store.close()
        return found


def full(channel: Channel, *, folder: str) -> list[str]:
    """Half a line is written when the disk is full."""
    text = TextFileStore(folder)
    text.note(1)
    with failing("write", errno.ENOSPC):
        found = text.refused(StoreFull, lambda: text.note(2))
    text.note(3)
    return found + text.problems([1, 3])


def full_for_a_new_file(channel: Channel, *, folder: str) -> list[str]:
    """There is no room even for the name of a new session's file."""
    text = TextFileStore(folder)
    new = session.NewSession(id="third", program="p", arguments={})
    with failing("open", errno.ENOSPC):
        found = text.refused(StoreFull, lambda: text.store.write_now(session.create(new, by="a")))
    text.store.write_now(session.create(new, by="a"))
    return found + text.problems([])


def sync_fails(channel: Channel, *, folder: str) -> list[str]:
    """The line cannot be synced, and is cut off again."""
    text = TextFileStore(folder)
    with failing("fsync", errno.EIO):
        found = text.refused(StoreUnavailable, lambda: text.note(1))
    text.note(2)
    return found + text.problems([2])


def disk_stays_dead(channel: Channel, *, folder: str) -> list[str]:
    """The line can be neither synced nor cut off: the outcome is unknown, and the store must be opened again."""
    text = TextFileStore(folder)
    text.note(1)
    with failing("fsync", errno.EIO, times=1_000_000):
        found = text.refused(CommitUnknown, lambda: text.note(2))
    found += text.refused(StoreUnavailable, lambda: text.note(3))
    with suppress(PerdureError):
        text.reopen()
    return found + text.problems([1], [1, 2])


def first_line_is_refused(channel: Channel, *, folder: str) -> list[str]:
    """The first line of a new file is refused: the file stays, empty, and its name is made durable by the next one."""
    text = TextFileStore(folder)
    new = session.NewSession(id="third", program="p", arguments={})
    with failing("write", errno.EDQUOT):
        found = text.refused(StoreFull, lambda: text.store.write_now(session.create(new, by="a")))
    synced = list[str]()
    real = os.fsync

    def watch(descriptor: Any) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    with mock.patch.object(os, "fsync", watch):
        text.store.write_now(session.create(new, by="a"))
    found += [] if any(path.endswith("/sessions") for path in synced) else [f"only {synced} were synced"]
    return found + text.problems([])
