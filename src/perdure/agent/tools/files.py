"""Reading files and listing folders. Nothing is changed, so both may run again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from perdure.agent.files.safe_files import CHUNK, label, open_file, real_path
from perdure.agent.files.workspace import here
from perdure.agent.git.repository import is_repository, query
from perdure.agent.tools.result import LIMIT, LINE, ToolResult, plain, short, text_result
from perdure.errors import NotDone
from perdure.runtime.definitions.tool import tool

ENTRIES = 500  # listed at most
FILES = 50_000  # walked at most
BINARY = 256  # bytes shown of a binary file


@tool(replay="pure", retry=1, reach="workspace")
def read_file(path: str, offset: int = 1, limit: int = 400) -> ToolResult:
    """Read a text file from line `offset`, at most `limit` lines. Returns numbered lines and the number of lines."""
    if offset < 1 or limit < 1:
        raise NotDone("`offset` counts lines from 1, and `limit` is at least 1.")
    name = label(found := real_path(path))
    with open_file(found) as file:
        if file is None:
            return ToolResult(f"There is no file {short(name)}.", read={name: None}, failed=True)
        pages = _Pages(file, offset, limit)
    read: dict[str, str | None] = {name: pages.digest}
    return ToolResult(pages.text(short(name)), origin=f"file:{name}", read=read)


class _Pages:
    """The requested lines of a file, and facts about the whole file."""

    def __init__(self, file: BinaryIO, offset: int, limit: int) -> None:
        self._offset = offset
        self._lines: list[str] = []
        self._room = LIMIT
        self._invalid = False
        self._head = file.read(8192)
        self._binary = b"\0" in self._head
        file.seek(0)
        hashing, self.size, self._count, rest = sha256(), 0, 0, b""
        while chunk := file.read(CHUNK):
            hashing.update(chunk)
            self.size += len(chunk)
            *whole, rest = (rest + chunk).split(b"\n") if not self._binary else [b""]
            for line in whole:
                self._take(line, limit)
        if rest:
            self._take(rest, limit)
        self.digest = hashing.hexdigest()

    def _take(self, line: bytes, limit: int) -> None:
        self._count += 1
        if not self._offset <= self._count < self._offset + limit or self._room <= 0:
            return
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            self._invalid = True
            text = line.removesuffix(b"\r").decode(errors="backslashreplace")
        if len(text) > LINE:
            text = f"{text[:LINE]}… [{len(text)} characters]"
        shown = f"{self._count:6}\t{plain(text)}"
        self._room -= len(shown) + 1
        if self._room > 0 or not self._lines:
            self._lines.append(shown)

    def text(self, name: str) -> str:
        if self._binary:
            head = repr(self._head[:BINARY])[2:-1]
            return f"{name} is a binary file of {self.size} bytes. It begins with:\n{head}"
        last = self._offset + len(self._lines) - 1
        about = f"{name}: {self._count} lines, {self.size} bytes"
        if not self._lines:
            return f"{about}; none from line {self._offset} on."
        if self._offset > 1 or last < self._count:
            about += f"; lines {self._offset} to {last}"
        if self._invalid:
            about += "; bytes that are not UTF-8 are shown as \\x.."
        return "\n".join([about, *self._lines])


@tool(replay="pure", retry=1, reach="workspace")
def list_files(path: str = ".", depth: int = 2) -> ToolResult:
    """List the files in a folder, `depth` levels deep, without what git ignores. One path per line."""
    top = real_path(path)
    if not top.is_dir():
        return ToolResult(f"There is no folder {short(path)}.", failed=True)
    names = list(islice(walk(top), FILES + 1))
    shown: dict[str, int] = {}
    start = 0 if top == here().root else len(label(top).split("/"))
    for name in names:
        parts = name.split("/")
        deeper = len(parts) - start > max(depth, 1)
        entry = "/".join(parts[: start + max(depth, 1)]) + "/" if deeper else name
        shown[entry] = shown.get(entry, 0) + 1
    lines = [f"{one} ({count} files)" if one.endswith("/") else one for one, count in sorted(shown.items())]
    if len(lines) > ENTRIES:
        lines = [*lines[:ENTRIES], f"[{len(lines) - ENTRIES} more entries; list a subfolder]"]
    many = f"more than {FILES}" if len(names) > FILES else str(len(names))
    return text_result("\n".join([f"{many} files", *lines]), origin=f"file:{label(top)}")


def walk(top: Path) -> Iterator[str]:
    """Every file in a folder, as the record names it: what git tracks or would track, or simply all."""
    if is_repository():
        where = [] if top == here().root else ["--", label(top)]
        out = query(
            "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", *where, limit=8 << 20
        )
        names: Iterator[str] = (one.decode(errors="replace") for one in out.text.rstrip(b"\0").split(b"\0") if one)
    else:
        names = _all(top)
    for name in names:
        full = here().root / name
        if ".." in full.parts:
            continue  # the index of a repository can hold any name
        if os.path.lexists(full) and not any(full == one or one in full.parents for one in here().protected):
            yield name


def _all(top: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(one for one in folders if one != ".git")
        for name in sorted(files):
            yield (Path(folder) / name).relative_to(here().root).as_posix().encode(errors="replace").decode()
