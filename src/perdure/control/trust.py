"""Settings of folders that the user has trusted: the exact content, and since when.

Trust is stored in the user's data folder, one file for each `perdure.toml`, and is bound to the digest of its content:
a file that changes is no longer trusted. Nothing inside a repository can add trust. The text is stored too, so that a
change can be shown as a diff.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from perdure.clock import SystemClock
from perdure.config import data_folder
from perdure.durable import make_folder, write_whole
from perdure.ids import digest


class TrustRecord(msgspec.Struct, frozen=True):
    """One `perdure.toml` as the user trusted it."""

    path: str
    digest: str
    text: str
    at: int


def digest_of(text: str) -> str:
    """The digest that trust in a text is bound to."""
    return digest(text.encode())


def is_trusted(path: Path, text: str) -> bool:
    """Whether the user trusted exactly this content at exactly this path."""
    found = trusted(path)
    return found is not None and found.digest == digest_of(text)


def trusted(path: Path) -> TrustRecord | None:
    """What the user last trusted at this path."""
    try:
        found = msgspec.json.decode(_file(path).read_bytes(), type=TrustRecord)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.path == str(_real_path(path)) and found.digest == digest_of(found.text) else None


def trust(path: Path, text: str) -> TrustRecord:
    """Record trust in this content at this path, durably."""
    made = TrustRecord(str(_real_path(path)), digest_of(text), text, SystemClock().now())
    target = _file(path)
    make_folder(target.parent)
    write_whole(target, msgspec.json.encode(made))
    return made


def forget(path: Path) -> bool:
    """Stop trusting the file at this path. Returns False if it was not trusted."""
    try:
        _file(path).unlink()
    except FileNotFoundError:
        return False
    return True


def _real_path(path: Path) -> Path:
    """The path of the file with symbolic links of its folder resolved."""
    return path.parent.resolve() / path.name


def _file(path: Path) -> Path:
    return data_folder() / "trusted" / f"{digest(str(_real_path(path)).encode())}.json"
