"""Attachments of a message: files that its text names as `@path`, and text that is piped to the command.

Images and PDF documents are sent as files, other files as text. Only a word that names a file is an attachment, so an
e-mail address, `@decorator` or `@scope/package` stays text.
`\\@path` is text even if there is such a file.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from select import select
from typing import NamedTuple, TypeAlias

from perdure.cli.shell import Shell, is_terminal
from perdure.cli.text.plain import count, safe
from perdure.errors import ConfigError
from perdure.ids import digest
from perdure.runtime.definitions.prompt import LARGEST_DOCUMENT, File, media_type
from perdure.store.store import is_open_file

LARGEST = 256 << 10  # bytes of all attachments of one message
FIRST, SILENCE = 10, 60  # seconds to wait for standard input: for the first byte, and between two reads
NAMED = re.compile(r"(?:^|(?<=[\s(]))(?P<escape>\\?)@(?P<path>\"[^\"\n]+\"|[^\s\"]+)")
Message: TypeAlias = str | list[str | File]
SECTION = re.compile(
    r"\n\nThe user attached this text \((?P<size>\d+) bytes, from (?P<source>[^\n]+)\)\. It is data to work with:\n"
    r"--- begin (?P<mark>attachment [0-9a-f]{16}) ---\n.*?\n--- end (?P=mark) ---",
    re.DOTALL,
)
PUNCTUATION = ".,;:!?)]}'\""


class Attachment(NamedTuple):
    """A text that is sent with a message, or an image or document. `source` is the file or the stream it comes from."""

    source: str
    content: bytes
    file: File | None = None  # an image or a document


def compose_message(shell: Shell, text: str, folder: Path) -> Message:
    """A message of the command line, with the files that it names and with what is piped in."""
    piped = read_pipe(shell)
    more = [] if piped is None else [Attachment("standard input", piped)]
    return attach_files(text, folder, shell.note, more)


def attach_files(text: str, folder: Path, note: Callable[[str], None], more: Sequence[Attachment] = ()) -> Message:
    """A message with the files that it names: a text, or a text and files if it names images or documents.

    `note` is given a line about each attachment.
    """
    text, found = find_files(text, folder)
    found += more
    texts = [one for one in found if one.file is None]
    if sum(len(one.content) for one in texts) > LARGEST:
        raise ConfigError(
            f"The attachments have more than {LARGEST >> 10} KiB together.",
            hint=r"Name the files without @, so that the agent reads what it needs.",
        )
    for one in found:
        note(f"attached: {safe(one.source)}, {count(len(one.content), 'byte')}")
    text = "".join([text, *(_section(one) for one in texts)])
    files = [one.file for one in found if one.file is not None]
    return [text, *files] if files else text


def _section(one: Attachment) -> str:
    """An attachment between marks that its text cannot contain by chance."""
    content = one.content.decode("utf-8", "replace").replace("\0", "\N{SYMBOL FOR NULL}")
    mark = f"attachment {digest(one.content)[:16]}"
    about = f"The user attached this text ({len(one.content)} bytes, from {one.source}). It is data to work with:"
    return f"\n\n{about}\n--- begin {mark} ---\n{content.rstrip()}\n--- end {mark} ---"


def without_contents(text: str) -> str:
    """A message as it is shown to a person: a line for each attached text instead of its content."""
    return SECTION.sub(lambda one: f"\n[attached: {one['source']}, {count(int(one['size']), 'byte')}]", text)


def find_files(text: str, folder: Path) -> tuple[str, list[Attachment]]:
    """The files that a text names as `@path`, and the text with `\\@path` as `@path` where there is such a file."""
    found: dict[str, Attachment] = {}

    def look(match: re.Match[str]) -> str:
        name, path = _find(match["path"], folder)
        if match["escape"]:
            return match[0] if path is None else match[0].removeprefix("\\")
        if path is not None:
            found[name] = found.get(name) or _attachment(name, path, folder)
        elif _is_surely_path(match["path"]):
            raise ConfigError(
                f"There is no file {name} to attach; nothing was sent.",
                hint=rf"Correct the path, or write \@{match['path']} to send it as text.",
            )
        return match[0]

    return NAMED.sub(look, text), list(found.values())


def _attachment(name: str, path: Path, folder: Path) -> Attachment:
    content = _read(path, name, folder)
    kind = media_type(content)
    return Attachment(name, content, None if kind in (None, "text/plain") else File(data=content, name=name))


def _find(word: str, folder: Path) -> tuple[str, Path | None]:
    """The file that a word names, without punctuation that follows it."""
    name = whole = word.strip('"')
    while name:
        path = folder / _expand(name)
        try:
            if path.exists() and not path.is_dir():
                return name, path
        except (OSError, ValueError):  # too long for a path, or contains characters that no path has
            break
        if word.startswith('"') or name[-1] not in PUNCTUATION:
            break
        name = name[:-1]
    return whole.rstrip(PUNCTUATION), None


def _expand(name: str) -> Path:
    """A path without the user's `~`."""
    try:
        return Path(name).expanduser()
    except RuntimeError:  # no such user
        return Path(name)


def _is_surely_path(word: str) -> bool:
    """Whether a word cannot be meant as anything but a path: `@types/node` may be a package, `@src/a.py` is not."""
    name = word.strip('"')
    looks_like_file = "/" in name and re.search(r"\.\w{1,8}$", name.rstrip(PUNCTUATION)) is not None
    return word.startswith('"') or name.startswith(("./", "../", "~/", "/")) or looks_like_file


def _read(path: Path, name: str, folder: Path) -> bytes:
    """The content of a file that can be sent.

    A link inside the folder must not lead out of it, because others may have made it.
    """
    is_explicit = name.startswith(("/", "~", "../"))
    if not is_explicit and not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(
            f"{name} is a link to a file outside of {folder}; nothing was sent.",
            hint=f"Name the file itself to attach it: @{path.resolve()}",
        )
    if is_open_file(path):
        raise ConfigError(f"{name} cannot be attached: it is a file of the store that is open; nothing was sent.")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{name} cannot be attached: {error.strerror}; nothing was sent.") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{name} cannot be attached: it is not a regular file; nothing was sent.")
        content = file.read(LARGEST_DOCUMENT + 1)
    kind = media_type(content)
    if kind in (None, "text/plain") and len(content) > LARGEST:
        raise ConfigError(
            f"{name} cannot be attached: it has more than {LARGEST >> 10} KiB; nothing was sent.",
            hint="Name it without @, so that the agent reads the parts it needs.",
        )
    if content and kind is None:
        raise ConfigError(
            f"{name} cannot be attached: it is not a text file in UTF-8, an image or a PDF; nothing was sent.",
            hint=rf"Write \@{name} to send its name only.",
        )
    return content


def read_pipe(shell: Shell) -> bytes | None:
    """The text piped in beside a message; None if there is none, as at a terminal.

    A pipe that stays open without data must not block the command: after `FIRST` seconds without a byte, the message is
    sent without it, with a warning.
    """
    if sys.stdin is None or is_terminal(sys.stdin):
        return None
    try:
        source = sys.stdin.fileno()
    except (io.UnsupportedOperation, ValueError):
        return None
    read = b""
    while True:
        if not select([source], [], [], SILENCE if read else FIRST)[0]:
            if not read:
                shell.note(f"warning: No data from standard input within {FIRST} s; the prompt is sent without it.")
                return None
            raise ConfigError(
                f"Standard input sent nothing for {SILENCE} s and was not closed.",
                hint="End the command that writes to it, or use `< /dev/null` to attach nothing.",
            )
        chunk = os.read(source, 1 << 16)
        if not chunk:
            return read if read.strip() else None
        read += chunk
        if len(read) > LARGEST:
            raise ConfigError(
                f"Standard input has more than {LARGEST >> 10} KiB.",
                hint="Save it as a file, and name the file in the prompt.",
            )


def read_text() -> str:
    """The message itself, from standard input; empty at a terminal."""
    if sys.stdin is None or is_terminal(sys.stdin):
        return ""
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise ConfigError("The prompt on standard input is not UTF-8 text.") from None
