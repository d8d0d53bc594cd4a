"""Wrappers: programs that run the program which follows in their words, and how to find it there.

The options of each wrapper are listed. One that is not listed could take the next word as its value, so that another
word would be the program: then the command cannot be judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import dropwhile

import msgspec

from perdure.domain.policy.shell.part import UNKNOWN


class Wrapper(msgspec.Struct, frozen=True):
    """The options of a wrapper: characters and names, without and with a value; `before` words precede the program.

    `assigns`: assignments may precede it too; `any_name`: with names that are none for a shell, such as `1=2`.
    """

    flags: str = ""
    valued: str = ""
    long: tuple[str, ...] = ()
    long_valued: tuple[str, ...] = ()
    before: int = 0
    assigns: bool = False
    any_name: bool = False


class Inner(msgspec.Struct):
    """What a program runs: programs as words, code for a shell, and what cannot be known."""

    own: list[str]
    commands: list[list[str]] = []
    codes: list[str] = []
    variables: tuple[str, ...] = ()
    problem: str = ""


WRAPPERS: Mapping[str, Wrapper] = {
    "env": Wrapper("i0v", "uC", ("ignore-environment", "null", "debug"), ("unset", "chdir"), assigns=True,
                   any_name=True),
    "nice": Wrapper("", "n", (), ("adjustment",)),
    "ionice": Wrapper("t", "cn", ("ignore",), ("class", "classdata")),
    "nohup": Wrapper(),
    "setsid": Wrapper("cfw", "", ("ctty", "fork", "wait")),
    "stdbuf": Wrapper("", "ioe", (), ("input", "output", "error")),
    "timeout": Wrapper("v", "ks", ("foreground", "preserve-status", "verbose"), ("kill-after", "signal"), before=1),
    "time": Wrapper("pv", "fo", ("portability", "verbose"), ("format", "output"), assigns=True),
    "command": Wrapper("p"),
    "builtin": Wrapper(),
    "exec": Wrapper("cl", "a"),
    "coproc": Wrapper(assigns=True),
    "sudo": Wrapper("AbEHKknPSi", "CDghpRrTtUu", ("preserve-env", "non-interactive", "login"), ("user", "group"),
                    assigns=True, any_name=True),
    "doas": Wrapper("Lns", "aCu"),
    "pkexec": Wrapper("", "", ("disable-internal-agent",), ("user",)),
    "xargs": Wrapper("0rtpox", "aEIdLnPs", ("null", "no-run-if-empty", "verbose", "exit", "interactive"),
                     ("arg-file", "delimiter", "max-lines", "max-args", "max-procs", "max-chars", "replace")),
    "chroot": Wrapper("", "", ("skip-chdir",), ("userspec", "groups"), before=1),
    "flock": Wrapper("sexnuoFv", "wE", ("shared", "exclusive", "nonblock"), ("timeout",), before=1),
    "taskset": Wrapper("ac", "", (), (), before=1),
    "chrt": Wrapper("abfior", "", (), (), before=1),
    "unshare": Wrapper("imnpuUCTfrc", "", ("mount", "net", "pid", "user", "fork", "map-root-user")),
    "strace": Wrapper("fqtTvyC", "eops", (), ("trace",)),
    "caffeinate": Wrapper("dimsu", "tw"),
    "!": Wrapper(),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "proot": Wrapper("", "rbw"),
    "fakeroot": Wrapper(),
    "dbus-run-session": Wrapper(),
    "xvfb-run": Wrapper("a", "nes", ("auto-servernum",), ("server-num", "server-args")),
}  # fmt: skip
RUNNERS: Mapping[tuple[str, ...], Wrapper] = {
    ("uv", "run"): Wrapper("qvnm", "p", ("frozen", "locked", "no-sync", "offline", "quiet", "no-project", "isolated",
                                         "module", "active"),
                           ("extra", "group", "python", "with", "directory", "project", "env-file")),
    ("uv", "tool", "run"): Wrapper("qv", "pw", ("isolated", "offline", "quiet"), ("python", "from", "with")),
    ("uvx",): Wrapper("qv", "pw", ("isolated", "offline", "quiet"), ("python", "from", "with")),
    ("pipx", "run"): Wrapper("qv", "", ("no-cache", "verbose", "quiet", "system-site-packages"),
                             ("spec", "python", "pip-args", "with")),
    ("nix", "run"): Wrapper("L", "I", ("impure", "refresh", "offline", "quiet", "verbose"),
                            ("extra-experimental-features", "inputs-from")),
    ("rye", "run"): Wrapper(),
    ("pixi", "run"): Wrapper("qv", "e", ("frozen", "locked"), ("environment", "manifest-path")),
    ("conda", "run"): Wrapper("v", "np", ("no-capture-output", "live-stream"), ("name", "prefix", "cwd")),
    ("mise", "exec"): Wrapper(),
    ("direnv", "exec"): Wrapper(before=1),
    ("poetry", "run"): Wrapper(),
    ("pipenv", "run"): Wrapper(),
    ("pdm", "run"): Wrapper(),
    ("hatch", "run"): Wrapper(),
    ("npx",): Wrapper("yq", "", ("yes", "no-install", "no")),
    ("bunx",): Wrapper(),
    ("pnpm", "exec"): Wrapper(),
    ("yarn", "exec"): Wrapper(),
    ("npm", "exec"): Wrapper(),
    ("bundle", "exec"): Wrapper(),
}  # fmt: skip
PACKAGES = frozenset({("uv", "tool", "run"), ("uvx",), ("pipx", "run"), ("nix", "run")})  # a word names a package
_FOUND = re.compile(r"\{[/.]*\}")
_ATTACHED = re.compile(r"-(?!x$|X$)[A-Za-z0-9]*[xX]|--exec(?!$|-batch$)")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


def unwrap(program: str, words: Sequence[str]) -> Inner | None:
    """What a wrapper runs; None if the program is not a wrapper."""
    if program == "command" and words and re.match(r"-[pvV]*[vV]", words[0]):
        return None
    if program in WRAPPERS:
        found = _rest(WRAPPERS[program], list(words))
        if program == "env" and any(re.match(r"-\w*S|--split", word) for word in words):
            return Inner(list(words), problem="env splits a text into words")
        return _fed(words, found) if program == "xargs" else found
    for names, wrapper in RUNNERS.items():
        if program == names[0] and (at := _verb(wrapper, words, names[1:])) is not None:
            found = _rest(wrapper, list(words[at:]))
            found.own = [*words[:at], *found.own]
            if names in PACKAGES:
                found.commands = [_named(program, one) for one in found.commands]
            return found
    return None


def _verb(wrapper: Wrapper, words: Sequence[str], names: Sequence[str]) -> int | None:
    """Where the words after the verb of a runner begin; options may stand before it. None if it is another verb."""
    at = 0
    while names and at < len(words) and words[at].startswith("-"):
        at += _option(wrapper, words[at]) or 1
    return at + len(names) if tuple(words[at : at + len(names)]) == tuple(names) else None


def _named(program: str, words: list[str]) -> list[str]:
    """What a package runner runs, named without its version, its extras and where it comes from."""
    first, rest = words[0], words[1:]
    if program == "nix":
        first = re.split(r"[#/:]", first.partition("^")[0])[-1]
        rest = rest[1:] if rest[:1] == ["--"] else rest
    else:
        first = re.split(r"[@=<>!~\[ ]", first)[0]
    return [first or words[0], *rest]


def _rest(wrapper: Wrapper, words: list[str]) -> Inner:
    """The program after the options of its wrapper."""
    at, variables, before = 0, [], wrapper.before
    while at < len(words):
        word = words[at]
        if UNKNOWN in word:
            return Inner(words, problem="what runs is known only when the command runs")
        if word == "--":
            at += 1
            while before and at < len(words):
                at, before = at + 1, before - 1
            break
        if word.startswith("-") and len(word) > 1:
            step = _option(wrapper, word)
            if step == 0:
                return Inner(words, problem=f"the option {word[:40]} is not known here")
            at += step
        elif wrapper.assigns and (ASSIGNMENT.match(word) or (wrapper.any_name and "=" in word)):
            variables.append(word.split("=", 1)[0])
            at += 1
        elif before:
            at, before = at + 1, before - 1
        else:
            break
    inner = list(dropwhile(("{", "(", "!").__contains__, words[at:]))
    return Inner(words[:at], [inner] if inner else [], variables=tuple(variables))


def _option(wrapper: Wrapper, word: str) -> int:
    """How many words an option takes; 0 if it is not known."""
    if word.startswith("--"):
        name, _, value = word[2:].partition("=")
        if name in wrapper.long_valued:
            return 1 if value or "=" in word else 2
        return 1 if name in wrapper.long else 0
    for at, character in enumerate(word[1:], start=1):
        if character in wrapper.valued:
            return 2 if at == len(word) - 1 else 1
        if character not in wrapper.flags and not (character.isdigit() and (wrapper.valued or wrapper.before)):
            return 0
    return 1


def _fed(words: Sequence[str], found: Inner) -> Inner:
    """The words that xargs reads are known only when it runs; with -I they stand where the sign stands."""
    sign = next((words[at + 1] for at, word in enumerate(words[:-1]) if word == "-I"), None)
    sign = sign or next((word[2:] for word in words if re.match(r"-I.", word)), None) or "{}"
    found.commands = [[*(word.replace(sign, UNKNOWN) for word in one), UNKNOWN] for one in found.commands]
    return found


def executed_by_find(program: str, words: Sequence[str]) -> Inner:
    """What `find -exec` runs. A path that it finds stays `{}`: it begins with the folder, as other forms need not."""
    if program != "find" and any(_ATTACHED.match(word) for word in words):
        return Inner(list(words), problem="the program that fd runs is part of an option")
    own: list[str] = []
    found: list[list[str]] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word not in ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"):
            own.append(word)
            continue
        inner: list[str] = []
        while left and left[0] != ";" and not (left[0] == "+" and inner and inner[-1] == "{}"):
            one = left.pop(0)
            inner.append(one if one == "{}" else _FOUND.sub(UNKNOWN, one))
        del left[:1]
        found.append(inner)
    problem = "find runs what it finds" if any(_FOUND.search(inner[0]) for inner in found if inner) else ""
    return Inner(own, [inner for inner in found if inner], problem=problem)
