"""Writing files: what the model asks for, with the digests before and after in the intent.

The probe decides by content. The file holds what the write would produce: it happened. It still holds what it held
before: it did not. With any other content the file was changed by something else meanwhile, and a person is asked.

A local write cannot land after its process has died, so `inflight` is short.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from perdure.agent.files.safe_files import content_of, digest_of, label, replace, sync_file, writable_path
from perdure.agent.files.workspace import Workspace
from perdure.agent.tools.hidden_arguments import HIDDEN, PREPARE, ReadDigests, prepares
from perdure.agent.tools.result import ToolResult, plain, short
from perdure.errors import NotDone
from perdure.ids import digest
from perdure.runtime.definitions.tool import Call, Outcome, tool

__all__ = ["HIDDEN", "PREPARE", "edit_file", "write_file"]

LARGEST = 1_000_000  # bytes of what is written
DIFF = 120  # lines of a diff
CONTEXT = 2  # unchanged lines before and after a change in a diff
LONGEST_DIFF = 2000  # lines that are compared one by one
UNDO_ATTEMPTS = 50  # places where an edit may have been made
_START = re.compile(r"([-+])(\d+)")
AROUND, AROUND_WIDTH = 3, 200  # lines before and after an edit that a person is shown, and characters of each


@tool(replay="probe", inflight="1s", targets=("file:{path}", "path:{path}"), reach="workspace")
def write_file(call: Call, path: str, content: str, before: str | None) -> ToolResult:
    """Write a whole file, new or read before, and make the folders it needs. Returns how much was written."""
    call.reference(path)
    replace(writable_path(path), _bytes(content), before)
    return _write_result(path, content)


@write_file.probe
def _(call: Call, path: str, content: str, before: str | None) -> Outcome:  # noqa: ARG001
    outcome = _check_file(path, before, digest(_bytes(content)))
    return Outcome.happened(_write_result(path, content), reference=path) if outcome is None else outcome


@prepares(write_file, "before")
def prepare_write(known: ReadDigests, *, path: str, content: str) -> dict[str, Any]:
    """The digest of the file now; a file that was not read, or has changed since, is not overwritten."""
    real = writable_path(path)
    _bytes(content)
    name, before = label(real), digest_of(real)
    if before is not None and name not in known:
        raise NotDone(f"{short(name)} exists; read it first.")
    _require_unchanged(name, before, known)
    return {"path": name, "before": before}


@tool(replay="probe", inflight="1s", targets=("file:{path}", "path:{path}"), reach="workspace")
def edit_file(call: Call, path: str, old: str, new: str, before: str, after: str, all: bool = False) -> ToolResult:
    """Replace `old`, which must occur in the file exactly once, with `new`; with `all`, every `old`. Shows a diff."""
    real = writable_path(path)
    content = content_of(real)
    if content is None or digest(content) not in (before, after):
        raise NotDone(f"{short(path)} has changed meanwhile; read it again.")
    call.reference(path)
    is_made = digest(content) == after
    made = content if is_made else _edit(content, path, old, new, all)
    replace(real, made, before)
    return _edit_result(path, old, new, _undone(made, old, new, before) if is_made else content, made)


@edit_file.probe
def _(call: Call, path: str, old: str, new: str, before: str, after: str, all: bool = False) -> Outcome:  # noqa: ARG001
    outcome = _check_file(path, before, after)
    if outcome is not None:
        return outcome
    made = content_of(writable_path(path)) or b""
    if digest(made) != after:
        return Outcome.unknown(f"{short(path)} is being changed by something else.")
    result = _edit_result(path, old, new, _undone(made, old, new, before), made)
    return Outcome.happened(result, reference=path)


@prepares(edit_file, "before", "after")
def prepare_edit(known: ReadDigests, *, path: str, old: str, new: str, all: bool) -> dict[str, Any]:
    """The digests before and after. The model has read a text that it can quote, unless the file has changed since."""
    real = writable_path(path)
    name, content = label(real), content_of(real)
    if content is None:
        raise NotDone(f"There is no file {short(name)}.")
    before = digest(content)
    _require_unchanged(name, before, known)
    return {"path": name, "before": before, "after": digest(_edit(content, name, old, new, all))}


def write_details(workspace: Workspace, given: dict[str, Any]) -> dict[str, Any]:
    """The number of lines of the file that is replaced."""
    content = content_of(workspace.inside(given["path"]))
    return {} if content is None else {"replaces": content.count(b"\n")}


def edit_details(workspace: Workspace, given: dict[str, Any]) -> dict[str, Any]:
    """The number of the first changed line, what is around the change in its first and last line, and other lines."""
    content = content_of(workspace.inside(given["path"])) or b""
    text, old = content.decode(errors="replace").replace("\r\n", "\n"), given["old"].replace("\r\n", "\n")
    if (start := text.find(old)) < 0:
        return {}
    lines, first = text.split("\n"), text.count("\n", 0, start)
    last = first + old.count("\n") + (not old.endswith("\n"))
    lead = text[text.rfind("\n", 0, start) + 1 : start]
    tail = "" if old.endswith("\n") else text[start + len(old) :].partition("\n")[0]
    within = {"lead": lead, "tail": tail}
    return {name: plain(one)[:AROUND_WIDTH] for name, one in within.items() if one} | {
        "line": first + 1,
        "before": [plain(one)[:AROUND_WIDTH] for one in lines[max(0, first - AROUND) : first]],
        "after": [plain(one)[:AROUND_WIDTH] for one in lines[last : last + AROUND]],
    }


def _require_unchanged(name: str, there: str | None, known: ReadDigests) -> None:
    if name in known and known[name] != there:
        raise NotDone(f"{short(name)} has changed since it was read; read it again.")


def _check_file(path: str, before: str | None, after: str) -> Outcome | None:
    """What the content of the file shows about a write; None: it happened, and is durable."""
    try:
        real = writable_path(path)
        there = digest_of(real)
        if there == after:
            sync_file(real)
            return None
    except NotDone as error:
        return Outcome.unknown(error.message)
    if there == before:
        return Outcome.absent()
    return Outcome.unknown(f"{short(path)} holds neither the content before the write nor the content to be written.")


def _bytes(text: str) -> bytes:
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise NotDone("The content holds half of a surrogate pair, which a file cannot hold.") from None
    if len(content) > LARGEST:
        raise NotDone(f"The content has {len(content)} bytes; a single write is limited to {LARGEST}.")
    return content


def _edit(content: bytes, path: str, old: str, new: str, all: bool) -> bytes:
    """The content with the replacement made. On bytes: parts of the file that are not UTF-8 stay as they are."""
    if not old or old == new:
        raise NotDone("Nothing would change: `old` is empty, or the same as `new`.")
    there, instead = _bytes(old), _bytes(new)
    if there not in content and b"\r\n" in content:  # a model writes lines with its own line ends
        there, instead = _with_crlf(there, instead)
    times = content.count(there)
    if times == 0:
        raise NotDone(f"`old` does not occur in {short(path)}; read the file again.")
    if times > 1 and not all:
        raise NotDone(
            f"`old` occurs in {short(path)} {times} times; include more of the lines around it, or set `all`."
        )
    if len(content) + times * (len(instead) - len(there)) > max(LARGEST, len(content)):
        raise NotDone(f"{short(path)} would have more than {LARGEST} bytes.")
    return content.replace(there, instead)


def _write_result(path: str, content: str) -> ToolResult:
    whole = _bytes(content)
    text = f"Wrote {short(path)}: {len(content.splitlines())} lines, {len(whole)} bytes."
    return ToolResult(text, read={path: digest(whole)}, changed=True)


def _edit_result(path: str, old: str, new: str, content: bytes | None, made: bytes) -> ToolResult:
    """The edit as a diff with the line numbers of the file; without them if the content before is not known."""
    if content is None:
        lines = [line for line in _diff(old.splitlines(), new.splitlines()) if not line.startswith("@@ ")]
    else:
        lines = _diff(_lines(content), _lines(made))
    if len(lines) > DIFF:
        lines = [*lines[:DIFF], f"[{len(lines) - DIFF} more lines]"]
    text = "\n".join([f"Edited {short(path)}.", *(plain(line)[:500] for line in lines)])
    return ToolResult(text, read={path: digest(made)}, changed=True)


def _undone(made: bytes, old: str, new: str, before: str) -> bytes | None:
    """The content before an edit that a lost worker made, known by its digest. None if it is not found."""
    for there, instead in ((_bytes(old), _bytes(new)), _with_crlf(_bytes(old), _bytes(new))):
        if instead and digest(whole := made.replace(instead, there)) == before:
            return whole
        place = made.find(instead)
        for _ in range(UNDO_ATTEMPTS if instead else 0):
            if place < 0:
                break
            if digest(one := made[:place] + there + made[place + len(instead) :]) == before:
                return one
            place = made.find(instead, place + 1)
    return None


def _with_crlf(*texts: bytes) -> tuple[bytes, ...]:
    return tuple(text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for text in texts)


def _lines(content: bytes) -> list[str]:
    return content.decode(errors="replace").replace("\r\n", "\n").removesuffix("\n").split("\n")


def _diff(old: list[str], new: list[str]) -> list[str]:
    """A unified diff. Equal lines at both ends are left out first: comparing takes time."""
    first, last, least = 0, 0, min(len(old), len(new))
    while first < least and old[first] == new[first]:
        first += 1
    while last < least - first and old[-1 - last] == new[-1 - last]:
        last += 1
    start, end = max(0, first - CONTEXT), max(0, last - CONTEXT)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if len(old) + len(new) > LONGEST_DIFF:  # the time to compare grows with the product of both
        head = f"@@ -{start + 1},{len(old)} +{start + 1},{len(new)} @@"
        return [head, *(f"-{line}" for line in old[: DIFF // 2]), *(f"+{line}" for line in new)]
    lines = list(difflib.unified_diff(old, new, n=CONTEXT, lineterm=""))[2:]
    return [_moved(line, start) if line.startswith("@@ ") else line for line in lines]


def _moved(head: str, by: int) -> str:
    """The head of a hunk, for a file with so many lines before."""
    return _START.sub(lambda found: f"{found[1]}{int(found[2]) + by}", head)
