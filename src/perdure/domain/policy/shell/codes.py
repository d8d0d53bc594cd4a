"""Code in words: shells, `eval` and others that read a word as a command, git's aliases, and code of interpreters."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perdure.domain.policy.shell.part import UNKNOWN
from perdure.domain.policy.shell.wrappers import Inner

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh"})
INTERPRETERS = re.compile(r"(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|tclsh|osascript|gawk|awk|mawk)[\d.]*")
_CODE_OPTION = re.compile(r"-[A-Za-z]*[ceErp]|--eval|--print|--command")
_MODULE = re.compile(r"-[bBdEiIOPqRsSuvVx]*m(.*)", re.DOTALL)  # also in a cluster, and with its value attached
_STRING = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'", re.DOTALL)
_GIT_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix")
_GIT_QUIET = ("--no-pager", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects", "-P")
_GIT_RUNS = re.compile(
    r"(?:alias\.[^=]*=!|[^=]*(?:pager|editor|command|textconv|driver|fsmonitor|external|askpass)[^=]*=)(.*)",
    re.IGNORECASE | re.DOTALL,
)


def shell_code(words: Sequence[str]) -> tuple[str | None, str]:
    """The code of `sh -c`, or else a script's name ("" if the shell reads its input)."""
    at, wanted = 0, False
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if not word.startswith(("-", "+")) or word in ("-", "+"):
            break
        if not word.startswith("--"):
            wanted = wanted or (word.startswith("-") and "c" in word)
            at += word.endswith(("o", "O"))
        elif word in ("--rcfile", "--init-file"):
            at += 1
        elif word.startswith("--command"):
            wanted = True
        at += 1
    first = words[at] if at < len(words) else ""
    return (first, "") if wanted else (None, first)


def joined(program: str, words: Sequence[str]) -> list[str]:
    """The words of a program that are commands themselves."""
    match program:
        case "eval":
            return [" ".join(words[1:] if words[:1] == ["--"] else words)]
        case "trap":
            found = [word for word in words if not word.startswith("-") or word == "-"]
            return found[:1] if len(found) > 1 and found[0] not in ("", "-") else []
        case "alias":
            return [word.split("=", 1)[1] for word in words if "=" in word]
        case "watch":
            return [" ".join(_operands(words, "n"))]
        case "su" | "runuser" | "script":
            return [words[at + 1] for at, one in enumerate(words[:-1]) if re.fullmatch(r"-\w*c|--command", one)]
        case "ssh":
            return [" ".join(_operands(words, "bcDEeFIiJLlmOopQRSWw")[1:])]
        case "parallel":
            return [" ".join([*words[: list(words).index(":::") if ":::" in words else len(words)], UNKNOWN])]
        case _:
            return []


def _operands(words: Sequence[str], valued: str) -> list[str]:
    """The words from the first that is no option or value of one."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        at += 2 if len(words[at]) == 2 and words[at][1] in valued else 1
    return list(words[at:])


def git(words: Sequence[str]) -> tuple[list[str], list[list[str]], list[str]]:
    """The words of git from its verb on, the options before it, and the commands in its words."""
    options: list[list[str]] = []
    left = list(words)
    codes: list[str] = []
    while left and left[0].startswith("-"):
        word = left.pop(0)
        if word in _GIT_QUIET:
            continue
        name, value = (word, left.pop(0)) if word in _GIT_VALUED and left else (word.partition("=")[0], "")
        value = value or word.partition("=")[2]
        options.append([name, value] if value else [name])
        if name in ("-c", "--config-env") and (found := _GIT_RUNS.fullmatch(value)) is not None:
            codes.append(found[1].lstrip("!"))
    codes.extend(word[1:] for word in left[1:] if word.startswith("!"))
    if left[:2] == ["bisect", "run"] or left[:2] == ["submodule", "foreach"]:
        codes.append(" ".join(word for word in left[2:] if word != "--recursive"))
    if left[:1] in (["rebase"], ["filter-branch"]):
        names = r"-x|--exec|--[a-z]+-filter"
        codes.extend(left[at + 1] for at, one in enumerate(left[:-1]) if re.fullmatch(names, one))
        codes.extend(one.split("=", 1)[1] for one in left if one.startswith("--exec="))
    return left, options, codes


def interpreted(program: str, words: Sequence[str], given: str | None) -> list[str]:
    """The texts in an interpreter's code that may be commands: they are judged, but prove nothing if they are not."""
    if INTERPRETERS.fullmatch(program) is None:
        return []
    codes = [words[at + 1] for at, word in enumerate(words[:-1]) if _CODE_OPTION.fullmatch(word)]
    codes += list(words[:1]) if program.endswith("awk") else []
    codes += [given] if given is not None else []
    found = [one[0] or one[1] for code in codes for one in _STRING.findall(code)]
    return [re.sub(r"\\(.)", r"\1", one) for one in found if " " in one and len(one) < 1000][:50]


def module_of(program: str, words: Sequence[str]) -> list[str]:
    """The module and its words of `python -m MODULE`."""
    if re.fullmatch(r"(?:python|pypy)[\d.]*", program) is None:
        return []
    at = 0
    while at < len(words) and (word := words[at]).startswith("-"):
        if found := _MODULE.fullmatch(word):
            return [*filter(None, (found[1],)), *words[at + 1 :]]
        if word.startswith("-c"):
            break
        at += 2 if word in ("-W", "-X") else 1
    return []


def inner_of(program: str, words: Sequence[str], given: str | None) -> Inner | None:
    """The commands that stand as code in the words of a program; None if there are none."""
    if program in SHELLS:
        code, script = shell_code(words)
        if code is None and not script and given is not None:
            code = given
        if code is None:
            waits = "" if script and script not in ("-", "/dev/stdin") else "a shell runs what it reads"
            versions = words and all(word in ("--version", "--help") for word in words)
            return Inner(list(words), problem="" if versions else waits)
        return Inner(list(words), codes=[code])
    codes = [one for one in joined(program, words) if one.strip()]
    return Inner(list(words), codes=codes) if codes else None
