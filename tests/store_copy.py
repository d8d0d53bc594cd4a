"""The copy of a store's file, made by a process that may be killed from outside: whole or not there."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_store(template: str, target: str) -> None:
    """Copy the file of a store that is closed. A part of it would be reported as a damaged database."""
    Path(shutil.copy(template, f"{target}.unfinished")).rename(target)
