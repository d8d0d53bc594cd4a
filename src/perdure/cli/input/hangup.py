"""Closing the terminal window: the process is sent SIGHUP, and its terminal is gone.

The session is handed over as after a second Ctrl-C. From the signal on, nothing may be written to the terminal, because
every write fails, and the signal may come twice, from the kernel and from the shell.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Callable


def watch_hangup(report: Callable[[], None]) -> None:
    """Call `report` when the terminal is closed. A SIGHUP that was ignored at the start (`nohup`) stays ignored."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return

    def hang_up() -> None:
        leave_terminal()
        report()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hang_up)


def unwatch_hangup() -> None:
    """End the process again when the terminal is closed, unless it is closed already."""
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


def leave_terminal() -> None:
    """Write to nowhere from now on, and ignore further signals of the terminal."""
    asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in (0, 1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode):  # not a file or a pipe
            os.dup2(null, descriptor)
    os.close(null)
