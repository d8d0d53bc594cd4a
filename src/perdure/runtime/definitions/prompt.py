"""Prompts with files: text, images and PDF documents.

Text files become part of the text, so that the record shows what a model was sent. An image or a document is stored as
an artifact; the prompt names it by its digest. The type of a file is read from its content, never from its name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from perdure.errors import ConfigError
from perdure.ids import digest
from perdure.store.store import is_open_file

LARGEST_TEXT = 256 << 10  # bytes
LARGEST_IMAGE = 5 << 20
LARGEST_DOCUMENT = 20 << 20
MOST = 20  # files of one prompt
NAME = 200  # characters
PDF = "application/pdf"
_IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


class File:
    """A file for a prompt: `File("a.png")`, or `File(data=b"...", name="a.png")`. It is read at once.

    Images (PNG, JPEG, GIF, WebP), PDF documents and text in UTF-8 can be sent.
    """

    __module__ = "perdure"

    def __init__(self, path: str | Path | None = None, *, data: bytes | None = None, name: str | None = None) -> None:
        if (path is None) == (data is None):
            raise ConfigError("A file is given by its path or by its data.", hint='Write File("a.png").')
        self.name = _clean(name or (str(path) if path is not None else "file"))
        self.data = _read(Path(path), self.name) if path is not None else bytes(data or b"")
        self.media_type = media_type(self.data)
        largest = {"text/plain": LARGEST_TEXT, PDF: LARGEST_DOCUMENT}.get(self.media_type or "", LARGEST_IMAGE)
        if not self.data or self.media_type is None:
            why = "it is empty" if not self.data else "it is neither an image, a PDF document nor text in UTF-8"
            raise ConfigError(f"{self.name} cannot be sent: {why}.")
        if len(self.data) > largest:
            raise ConfigError(f"{self.name} cannot be sent: it has more than {largest >> 10:,} KiB.")

    @property
    def is_text(self) -> bool:
        return self.media_type == "text/plain"

    def text(self) -> str:
        """A text file as a part of the prompt, between marks that it cannot contain by chance."""
        content = self.data.decode()
        mark = f"file {digest(self.data)[:16]}"
        return f"{self.name} ({len(self.data)} bytes):\n--- begin {mark} ---\n{content.rstrip()}\n--- end {mark} ---"

    def reference(self) -> dict[str, Any]:
        """An image or a document as a part of the prompt."""
        about = {"digest": digest(self.data), "media_type": self.media_type, "size": len(self.data)}
        return {"type": "file", "name": self.name} | about

    def __repr__(self) -> str:
        return f"File({self.name!r}, {self.media_type}, {len(self.data)} bytes)"


Prompt: TypeAlias = "str | Path | File | Sequence[str | Path | File]"
Content: TypeAlias = "str | list[dict[str, Any]]"  # a prompt as it is stored


def prompt_content(prompt: Prompt) -> tuple[Content, tuple[File, ...]]:
    """A prompt as it is stored, and the files that must be stored with it."""
    if isinstance(prompt, str):
        return prompt, ()
    if isinstance(prompt, File | Path):
        prompt = [prompt]
    if not isinstance(prompt, Sequence):
        raise ConfigError(
            f"A prompt cannot be a {type(prompt).__name__}.", hint="Give a text, a path, a file or a list."
        )
    texts, files = list[str](), list[File]()
    for part in prompt:
        given = File(part) if isinstance(part, Path) else part
        if isinstance(given, File) and not given.is_text:
            files.append(given)
        elif isinstance(given, str | File):
            texts.append(given if isinstance(given, str) else given.text())
        else:
            raise ConfigError(
                f"A prompt cannot contain a {type(part).__name__}.", hint="Give texts, paths and files: perdure.File."
            )
    if len(files) > MOST:
        raise ConfigError(f"A prompt cannot have more than {MOST} files.")
    text = "\n\n".join(texts)
    if not files:
        return text, ()
    return [{"type": "text", "text": text}, *(one.reference() for one in files)], tuple(files)


def has_files(message: Any) -> bool:
    """Whether a message is a prompt with files, and not a text or a value."""
    parts = message if isinstance(message, list | tuple) else [message]
    return any(isinstance(part, Path | File) for part in parts)


def media_type(data: bytes) -> str | None:
    """The type of a file by its content; None if it cannot be sent."""
    for begin, kind in _IMAGES:
        if data.startswith(begin):
            return kind
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    if data.startswith(b"%PDF-"):
        return PDF
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    return None if b"\0" in data else "text/plain"


def _read(path: Path, name: str) -> bytes:
    try:
        if is_open_file(path):
            raise ConfigError(f"{name} cannot be sent: it is a file of the store that is open.")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{name} cannot be sent: it is not a regular file.")
            return file.read(LARGEST_DOCUMENT + 1)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"{name} cannot be sent: {why}.") from None


def _clean(name: str) -> str:
    shown = "".join(one if one.isprintable() else "?" for one in name)
    return shown if len(shown) <= NAME else f"…{shown[1 - NAME :]}"
