"""The launcher: runs bubblewrap with a system call filter and, for root, runs the command as another user.

Root without capabilities still owns root's files: it can read `/etc/shadow`. So the command gets the id of another
user, and the folder is mounted with translated ids: root's files on the disk belong to that user in the folder, and the
files that the command makes there belong to root on the disk.

    translate   in a new mount namespace: the folder, and other paths of root that the command needs (`--own`)
    enclose     a user namespace in which no other can be made; bubblewrap joins it and mounts everything else
    drop        the first program in the sandbox takes the other id, gives up what is left, and runs the command

Any failure ends the launch: nothing is run with more rights than requested. It imports nothing but the standard
library, because a command waits for it.
"""

from __future__ import annotations

import ctypes
import os
import sys

USER = 65534  # the id of the user without rights on most systems
_EVERY = 2**32 - 1
_NAMESPACE, _FILTER = 9, 8  # descriptors
_NEW_MOUNTS, _NEW_USER = 0x20000, 0x10000000
_OPEN_TREE, _MOVE_MOUNT, _SET_ATTRIBUTES = 428, 429, 442
_EMPTY_PATH, _RECURSIVE, _HERE = 0x1000, 0x8000, -100
_PRIVATE, _TRANSLATED, _FROM_DESCRIPTOR = 0x4000 | 1 << 18, 0x100000, 4
NEEDED = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")  # to take the other id; given up with it
_DROP = ["--reuid", str(USER), "--regid", str(USER), "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
_BEGIN = f'exec {_NAMESPACE}<&- && cd "$0" && exec "$@"'


def main(*arguments: str) -> None:
    """`[--filter HEX] [--drop SETPRIV --folder ROOT [--own PATH]...] -- BUBBLEWRAP OPTIONS... -- COMMAND...`"""
    given: dict[str, list[str]] = {"--filter": [], "--drop": [], "--folder": [], "--own": []}
    rest = list(arguments)
    while (word := rest.pop(0)) != "--":
        given[word].append(rest.pop(0))
    end = rest.index("--")
    line, command = rest[:end], rest[end + 1 :]
    for program in given["--filter"]:
        _open_filter(bytes.fromhex(program))
        line += ["--seccomp", str(_FILTER)]
    for setpriv in given["--drop"]:
        (folder,) = given["--folder"]
        _prepare([folder, *given["--own"]])
        line += ["--userns", str(_NAMESPACE)]
        command = [setpriv, *_DROP, "--no-new-privs", "/bin/sh", "-c", _BEGIN, folder, *command]
    os.execv(line[0], [*line, "--", *command])


def _open_filter(program: bytes) -> None:
    made = os.memfd_create("filter")
    os.write(made, program)
    os.lseek(made, 0, os.SEEK_SET)
    os.dup2(made, _FILTER)


class _Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace")]


def _prepare(owned: list[str]) -> None:
    """Translate the ids of the owned paths, and open the user namespace that bubblewrap joins."""
    libc = ctypes.CDLL(None, use_errno=True)
    swapped = f"0 {USER} 1\n1 1 {USER - 1}\n{USER} 0 1\n{USER + 1} {USER + 1} {_EVERY - USER - 1}\n"
    translation = _user_namespace(libc, swapped)
    os.dup2(_user_namespace(libc, f"0 0 {_EVERY}\n"), _NAMESPACE)
    _check(libc.unshare(_NEW_MOUNTS))
    _check(libc.mount(None, b"/", None, _PRIVATE, None))
    attributes = _Attributes(_TRANSLATED, 0, 0, translation)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    for path in map(os.fsencode, filter(os.path.exists, owned)):
        tree = _check(libc.syscall(_OPEN_TREE, _HERE, path, 1 | os.O_CLOEXEC | _RECURSIVE))
        _check(libc.syscall(_SET_ATTRIBUTES, tree, b"", _EMPTY_PATH | _RECURSIVE, ctypes.byref(attributes), size))
        _check(libc.syscall(_MOVE_MOUNT, tree, b"", _HERE, path, _FROM_DESCRIPTOR))
        os.close(tree)
    os.close(translation)
    for stream in range(3):  # so that the command can open /dev/stdout
        if os.readlink(f"/proc/self/fd/{stream}").startswith("pipe:"):
            os.fchown(stream, USER, USER)


def _check(answer: int) -> int:
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def _user_namespace(libc: ctypes.CDLL, ids: str) -> int:
    """A user namespace with these ids, in which no other can be made."""
    from_child, to_parent = os.pipe()
    from_parent, to_child = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.close(to_child)
            _check(libc.unshare(_NEW_USER))
            os.write(to_parent, b"1")
            os.read(from_parent, 1)
            with open("/proc/sys/user/max_user_namespaces", "w") as most:
                most.write("0")
            os.write(to_parent, b"2")
            os.read(from_parent, 1)
        finally:
            os._exit(0)
    os.close(to_parent)
    if not os.read(from_child, 1):
        raise OSError("no user namespace can be made")
    for kind in ("uid", "gid"):
        with open(f"/proc/{pid}/{kind}_map", "w") as translation:
            translation.write(ids)
    os.write(to_child, b"1")
    if not os.read(from_child, 1):
        raise OSError("further user namespaces cannot be forbidden")
    made = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    for end in (from_child, from_parent, to_child):
        os.close(end)
    os.waitpid(pid, 0)
    return made


if __name__ == "__main__":
    main(*sys.argv[1:])
