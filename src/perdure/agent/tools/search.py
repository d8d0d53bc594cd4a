"""Searching files with a regular expression.

The pattern is Python's, which models write best, and it means the same on every machine; `grep` and `git grep` have
other dialects in each build. A pattern can run forever, and a thread cannot be stopped, so a child process searches and
is killed when its time is up. The matches found by then are still returned.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

import msgspec

from perdure.agent.files.safe_files import label, real_path
from perdure.agent.files.workspace import here
from perdure.agent.tools import search_process
from perdure.agent.tools.files import FILES, walk
from perdure.agent.tools.result import ToolResult, short, text_result
from perdure.errors import NotDone
from perdure.runtime.definitions.tool import tool

MATCHES = 200
LONGEST = 300
SECONDS = 20.0


class _Line(msgspec.Struct):
    """One line of the child's output."""

    name: str = ""
    line: int = 0
    text: str = ""
    error: str | None = None


@tool(replay="pure", retry=1, reach="workspace")
def search_files(pattern: str, path: str = ".", glob: str | None = None) -> ToolResult:
    """Search text files for a Python regular expression, line by line; `glob`, such as `*.py` or `src/**/test_*.py`,
    selects the files. Returns `path:line: text` for each match; what git ignores is left out.
    """
    top = real_path(path)
    names = [label(top)] if top.is_file() else list(islice(walk(top), FILES + 1))
    if glob is not None:
        wanted = _translate(glob)
        names = [name for name in names if wanted.match(name)]
    found, complete = _search(pattern, names[:FILES])
    lines = [f"{one.name}:{one.line}: {one.text}" for one in found]
    head = f"{len(lines)} matches in {len({one.name for one in found})} files"
    if len(lines) >= MATCHES:
        head += f"; only the first {MATCHES} are shown, narrow the search"
    elif not complete:
        head += f"; the search took longer than {SECONDS:g} s and was stopped, narrow it or simplify the pattern"
    if len(names) > FILES:
        head += f"; only the first {FILES} files were searched"
    return text_result("\n".join([head, *lines]), origin=f"file:{label(top)}", failed=not lines and not complete)


def _search(pattern: str, names: list[str]) -> tuple[list[_Line], bool]:
    """The matches, and whether everything was searched."""
    request_head = {"root": str(here().root), "pattern": pattern, "most": MATCHES, "longest": LONGEST}
    try:
        request = msgspec.json.encode(request_head) + b"\n" + "\0".join(names).encode()
    except UnicodeEncodeError:
        raise NotDone("The pattern holds half of a surrogate pair.") from None
    command = [sys.executable, "-I", "-S", str(Path(search_process.__file__).resolve())]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as child:
        timer = threading.Timer(SECONDS, child.kill)
        timer.start()
        try:
            out, _ = child.communicate(request)
        finally:
            timer.cancel()
            child.kill()
    found = [msgspec.json.decode(line, type=_Line) for line in out.split(b"\n")[:-1]]
    if found and found[0].error is not None:
        raise NotDone(f"{short(pattern)} is not a regular expression: {short(found[0].error)}.")
    return found, child.returncode == 0


def _translate(glob: str) -> re.Pattern[str]:
    """A glob over whole paths; one without a slash applies to names, at any depth."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\{[^{}]*\})", glob if "/" in glob else f"**/{glob}")
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(known.get(part) or _choice(part) for part in parts) + r"\Z")


def _choice(part: str) -> str:
    if len(part) > 1 and part[0] == "{" and part[-1] == "}":
        return "(?:" + "|".join(re.escape(one).replace(r"\*", "[^/]*") for one in part[1:-1].split(",")) + ")"
    return re.escape(part)
