"""A real disk with little room: a file system in memory, mounted for one process and gone with it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NEW_MOUNTS, NEW_USER, PRIVATE = 0x00020000, 0x10000000, (1 << 18) | (1 << 14)


def mount_memory(folder: Path, size: int) -> str | None:
    """Mount an empty file system of this size for this process only; returns the reason where that is not allowed.

    The process must have one thread. A user other than root becomes root of a new user namespace first.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(NEW_MOUNTS | (NEW_USER if user else 0)):
        return f"unshare: {os.strerror(ctypes.get_errno())}"
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    libc.mount(b"none", b"/", None, PRIVATE, None)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()):
        return f"mount: {os.strerror(ctypes.get_errno())}"
    return None
