"""The analysis beside a real bash: what bash runs must be a part, unless the analysis says that it is not certain.

Commands are made by chance from pieces that shells and parsers read differently. They run with a search path of two
programs that only record their words, and of wrappers.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from perdure.domain.policy.shell import UNKNOWN, CommandPart, analyse
from tests.seed import SEED

TRIED = 1_500
PIECES = [
    "pa", "pb", "pa x", "pb -x y", "/", "'", '"', "\\", "\n", "$", "(", ")", "{ ", "}", "; ", ";", "&&", " || ", "|",
    " & ", "<", " > f", "<<EOF", "<<'EOF'", "\nEOF\n", "`", "#", " #", "! ", "=", "A=1 ", "$(", "$((", "))",
    "${", "{a,b}",
    "*", "~", "[ ", "]", "[[ ",
    "]]", "<<<", "<(", ">(", "2>&1", ">& f", "&> f", "if pa", "; then ", "; fi",
    "do ", "; done",
    "for i in a b; ", "case x in x) ", ";; esac", "f() ", "f", "\\\n", " \\\n ", "$'", '$"', "\t", "time ", "env ",
    "sh -c ", "eval ", "xargs ", "exec ", "x", "$x", '"$x"', "$HOME", "\\x70", "-c", " -- ", "nice ", "command ",
    "timeout 1 ", "\u00e9", "coproc ", "'pa y'", "\"pb 'q'\"", "pa\\ b", "p\\a", "p''b", "$'p\\x61'", "(( ", " ))",
    "export A=$(pa)", "a=(pa b)", "trap 'pb' EXIT", "${x:-$(pa)}",
]  # fmt: skip


def made(chance: random.Random) -> str:
    return "".join(chance.choice(PIECES) + chance.choice(["", "", " "]) for _ in range(chance.randint(2, 9)))


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("pa", "pb"):
        (folder / name).write_text(
            '#!/bin/bash\nIFS=$\'\\x1f\'; printf "%s\\x1e" "${0##*/}"$\'\\x1f\'"$*" >> "$LOG"\n', "utf-8"
        )
        (folder / name).chmod(0o755)
    for name in ("env", "xargs", "nice", "timeout", "bash"):
        (folder / name).symlink_to(shutil.which(name) or "")
    (folder / "sh").symlink_to("/bin/bash")
    return folder


def executed(command: str, programs: Path, work: Path) -> list[list[str]]:
    """What bash runs, as the programs record it. Whatever it started is ended."""
    work.mkdir()
    log = work.with_suffix(".log")
    process = subprocess.Popen(
        ["/bin/bash", "-c", command],
        env={"PATH": str(programs), "LOG": str(log), "HOME": "/h"},
        cwd=work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(120)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if not log.exists():
        return []
    return [one.split("\x1f") for one in log.read_text("utf-8", "replace").split("\x1e") if one]


def is_covered(run: list[str], parts: tuple[CommandPart, ...]) -> bool:
    """Whether a part has these words; what it does not know may be any words."""
    name, *words = run
    wild = {UNKNOWN: ".*", "*": ".*", "?": ".*", "[": ".*", "~": "(?:~|/h)", ".": "(?:[.]|/.*)"}
    for part in parts:
        expected = "\x1f?".join("".join(wild.get(sign) or re.escape(sign) for sign in word) for word in part.words)
        if part.program == name and re.fullmatch(expected, "\x1f".join(words), re.DOTALL):
            return True
    return False


@pytest.mark.slow
def test_bash_runs_nothing_that_is_not_a_part(programs: Path, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    ran = 0
    for number in range(TRIED):
        command = made(chance)
        analysis = analyse(command)
        if analysis.problems:
            continue
        runs = executed(command, programs, tmp_path / str(number))
        ran += bool(runs)
        assert [one for one in runs if not is_covered(one, analysis.parts)] == [], command
    assert ran > TRIED // 200
