"""Landlock: restrictions by the kernel, where bubblewrap does not work. Run as a file, it restricts itself and execs.

What is not granted cannot be written, by any user. Everything can be read. Landlock only grants, and a grant covers
everything below it; so where something in the folder is protected, its neighbours are granted one by one, and nothing
new can be made beside it.

No process outside can be signalled or traced. Without network access only local sockets can be made: Landlock knows
only TCP, so a system call filter (`seccomp.py`) refuses the rest, and also files that would give rights to others. No
privilege is kept and none can be gained.

It imports nothing but the standard library, because a command waits for it.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys

ABI = 6  # Linux 6.12: the first that can block signals to other processes
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_WRITE, _TRUNCATE, _DEVICE = 1 << 1, 1 << 14, 1 << 15
_CHANGES = sum(1 << right for right in (1, *range(4, 16)))  # every right except to run, to read and to list
_ON_FILES = _WRITE | _TRUNCATE | _DEVICE
_TCP = 0b11  # bind, connect
_SCOPES = 0b11  # abstract sockets, signals
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES, _DROP_BOUND, _SECCOMP = 38, 24, 22
_MACHINES = ("x86_64", "aarch64")  # whose system calls `seccomp.py` knows
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("parent", ctypes.c_int32)]


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("program", ctypes.POINTER(_Instruction))]


def abi() -> int:
    """The version of Landlock in this kernel; 0 where there is none."""
    if sys.platform != "linux" or os.uname().machine not in _MACHINES:
        return 0
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, ctypes.c_size_t(0), 1)))


def restrict(granted: list[str], *, network: bool, calls: bytes) -> None:
    """Give up, for this process and all its descendants, whatever is not granted."""
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = _Ruleset(_CHANGES, 0 if network else _TCP, _SCOPES)
    rules = _check(libc.syscall(_CREATE, ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes)), 0))
    for path in (*granted, *(device for device in _DEVICES if os.path.exists(device))):
        _grant(libc, rules, path)
    _drop_privileges(libc)
    _check(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _check(libc.syscall(_RESTRICT, rules, 0))
    os.close(rules)
    _filter(libc, calls)


def _grant(libc: ctypes.CDLL, rules: int, path: str) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISLNK(mode):
            rule = _Beneath(_CHANGES if stat.S_ISDIR(mode) else _ON_FILES, descriptor)
            _check(libc.syscall(_ADD, rules, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(descriptor)


def _drop_privileges(libc: ctypes.CDLL) -> None:
    """Root without capabilities is an ordinary user; the bounding set is emptied so that no exec restores them."""
    privileged = os.geteuid() == 0
    for capability in range(64):
        if libc.prctl(_DROP_BOUND, capability, 0, 0, 0) != 0 and privileged and capability == 0:
            raise OSError(ctypes.get_errno(), "the capabilities cannot be dropped")
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _check(libc.capset(header, (ctypes.c_uint32 * 6)()))


def _filter(libc: ctypes.CDLL, content: bytes) -> None:
    program = (_Instruction * (len(content) // ctypes.sizeof(_Instruction))).from_buffer_copy(content)
    _check(libc.prctl(_SECCOMP, 2, ctypes.byref(_Filter(len(program), program)), 0, 0))


def _check(answer: int) -> int:
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def main(*arguments: str) -> None:
    """`[--network] --filter HEX [--write PATH]... -- COMMAND...`; nothing runs unrestricted."""
    network, calls, granted, rest = False, "", list[str](), list(arguments)
    while (word := rest.pop(0)) != "--":
        if word == "--network":
            network = True
        elif word == "--filter":
            calls = rest.pop(0)
        else:
            granted.append(rest.pop(0))
    restrict(granted, network=network, calls=bytes.fromhex(calls))
    os.execv(rest[0], rest)


if __name__ == "__main__":
    main(*sys.argv[1:])
