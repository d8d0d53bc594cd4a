"""Hands: the threads that call functions which are not asynchronous.

A call gets a thread that has nothing else to do, and a new one when there is none: one that never ends takes no place
from others. Threads are kept for the next call, because starting one takes longer than most commits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from perdure import process

Tell = Callable[[], None]
Work = Callable[[], Tell]
MOST_IDLE = 128


class ThreadPool:
    """Threads that wait for work. `work` must not raise; what it returns is called when its thread is free again."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[Work]] = []

    def do(self, work: Work) -> None:
        with self._lock:
            free = self._idle.pop() if self._idle else None
        if free is not None:
            free.put(work)
        else:
            threading.Thread(target=self._serve, args=(work,), name="perdure-act", daemon=True).start()

    def _serve(self, work: Work) -> None:
        mine: SimpleQueue[Work] = SimpleQueue()
        while True:
            tell = work()
            with self._lock:
                stays = len(self._idle) < MOST_IDLE
                if stays:
                    self._idle.append(mine)  # before anybody hears of it: whoever does may have more
            tell()
            del tell, work  # what was called and what it returned are not kept for as long as nothing else comes
            if not stays:
                return
            work = mine.get()


THREADS = ThreadPool()


process.forget_in_child(THREADS.begin_anew)  # a forked process has this memory and none of these threads
