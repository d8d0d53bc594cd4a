"""Filters for the kernel's seccomp: system calls that a command in a sandbox cannot make.

    set-user-ID   no file can be made or changed so that it runs as its owner (for root: or as its group)
    sockets       for Landlock without network: local sockets only

A filter sees numbers and not what a pointer refers to. So calls that carry such a mode behind a pointer (`openat2`,
io_uring) fail as if this kernel did not have them, and programs use the older ones.

A filter is data: bytes that `landlock.py` and `launcher.py` receive and pass to the kernel.
"""

from __future__ import annotations

import errno
import os
import stat
import struct

_LOAD, _EQUAL, _AT_LEAST, _HAS, _GIVE = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # offsets in the input of a filter
_CREATING = os.O_CREAT | 0o20000000  # O_TMPFILE without the flag that it shares with O_DIRECTORY
_X32 = 0x40000000  # calls of a third kind of program on x86-64
_MODE = {  # which argument is the mode
    "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2,
}  # fmt: skip
_OPEN = {"open": 1, "openat": 2}  # which argument holds the flags; the mode follows
_COMMON = {"fchmodat2": 452}
_OLD = {"chmod": 15, "fchmod": 94, "creat": 8, "open": 5, "mknod": 14}  # of 32-bit programs
_POINTERS = (425, 437)  # io_uring_setup, openat2
_X86_64, _I386, _ARM64, _ARM = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028
_CALLS = {
    _X86_64: _COMMON | {"chmod": 90, "fchmod": 91, "fchmodat": 268, "creat": 85, "open": 2, "openat": 257,
                        "mknod": 133, "mknodat": 259, "socket": 41},
    _I386: _COMMON | _OLD | {"fchmodat": 306, "openat": 295, "mknodat": 297},
    _ARM64: _COMMON | {"fchmod": 52, "fchmodat": 53, "openat": 56, "mknodat": 33, "socket": 198},
    _ARM: _COMMON | _OLD | {"fchmodat": 333, "openat": 322, "mknodat": 324},
}  # fmt: skip
_MACHINES = {"x86_64": (_X86_64, _I386), "aarch64": (_ARM64, _ARM)}  # its own programs, and the 32-bit ones it runs

Line = tuple[int, int, int, int]


def known() -> bool:
    """Whether the numbers of this machine's system calls are known here."""
    return os.uname().machine in _MACHINES


def program(*, sockets: bool) -> bytes:
    """The filter; without `sockets`, only local ones, and no 32-bit programs, which have another way to make them."""
    own, other = _MACHINES[os.uname().machine]
    lines = [(_LOAD, 0, 0, _MACHINE)]
    for machine in (own, other) if sockets else (own,):
        body = _body(machine, sockets=sockets)
        lines += [(_EQUAL, 0, len(body), machine), *body]
    lines.append(_refuse(errno.EPERM))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _body(machine: int, *, sockets: bool) -> list[Line]:
    """The rules for the programs of one machine; every branch ends here."""
    bits = stat.S_ISUID | (stat.S_ISGID if os.geteuid() == 0 else 0)
    lines: list[Line] = [(_LOAD, 0, 0, _NUMBER)]
    if machine == _X86_64:
        lines += [(_AT_LEAST, 0, 1, _X32), _refuse(errno.EPERM)]
    for number in _POINTERS:
        lines += [(_EQUAL, 0, 1, number), _refuse(errno.ENOSYS)]
    for name, number in _CALLS[machine].items():
        if name in _MODE:
            lines += _when(number, _without(_MODE[name], bits))
        elif name in _OPEN:
            flags = _OPEN[name]
            lines += _when(number, [_load(flags), (_HAS, 0, 3, _CREATING), *_without(flags + 1, bits)])
        elif not sockets:
            lines += _when(number, [_load(0), (_EQUAL, 1, 0, 1), _refuse(errno.EACCES)])
    return [*lines, _allow()]


def _when(number: int, then: list[Line]) -> list[Line]:
    """The rule for a call of this number: if nothing in `then` decides, it is allowed."""
    return [(_EQUAL, 0, len(then) + 1, number), *then, _allow()]


def _without(argument: int, bits: int) -> list[Line]:
    return [_load(argument), (_HAS, 0, 1, bits), _refuse(errno.EPERM)]


def _load(argument: int) -> Line:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument)  # its lower half; both machines put that first


def _refuse(error: int) -> Line:
    return (_GIVE, 0, 0, _REFUSE | error)


def _allow() -> Line:
    return (_GIVE, 0, 0, _ALLOW)
