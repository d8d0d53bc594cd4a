"""Receipts: which bundles this user has exported, by the digest of their manifest.

The manifest has the digest of every other file, so a bundle with a receipt is exactly what the user exported, and an
import by the same user drops nothing from it. Receipts are in the user's data folder; nothing in a bundle, a repository
or a store can add one.
"""

from __future__ import annotations

from pathlib import Path

from perdure.config import data_folder
from perdure.durable import make_folder, write_whole
from perdure.errors import StoreFull, StoreUnavailable


def keep(digest: str) -> None:
    """Record that this user exported the bundle. If that fails, it is later imported like any other bundle."""
    try:
        make_folder(_folder())
        write_whole(_folder() / digest, b"")
    except (OSError, StoreFull, StoreUnavailable):
        return


def has(digest: str) -> bool:
    """Whether this user exported the bundle."""
    return (_folder() / digest).is_file()


def _folder() -> Path:
    return data_folder() / "exports"
