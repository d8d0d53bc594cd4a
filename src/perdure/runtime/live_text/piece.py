"""What watchers and workers on different machines tell each other about live text.

    announcement   a watcher names the sessions that it watches, every `ANNOUNCED` seconds; a worker forgets it after
                   `EXPIRES`. A session that it has just begun to watch is `fresh`: it wants all of the present call
    piece          a worker sends what a call has said since the last piece, at most every `PAUSE` seconds. Its offset
                   tells a watcher what it has already, and what it has missed

A watcher in the same place, which is a folder of one machine, reads the file there: nothing is sent for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from perdure.ids import boot_id, digest
from perdure.runtime.live_text.delta import RetryNotice

ANNOUNCEMENTS = "live-text"  # the topic of all announcements
ANNOUNCED, EXPIRES = 3.0, 10.0  # seconds
PAUSE = 0.25  # seconds between two pieces of a call
SILENT = 12.0  # seconds after which a worker that sends nothing is taken for dead
IDLE = 5.0  # seconds after which a thread without work ends
NAMED = 150  # sessions in one announcement
LONGEST = 1_000  # characters of a piece: at most 6,000 bytes, however they are escaped


class Announcement(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who watches what."""

    place: str
    sessions: list[str]
    fresh: list[str] = []


class Piece(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a call's text. An empty one says that the call is still under way."""

    session: str
    call: str
    after: int
    offset: int = 0  # characters before it
    text: str = ""
    end: Literal["", "recorded", "broke off"] = ""
    retry: RetryNotice | None = None


def topic_of(uid: str) -> str:
    """The topic of the pieces of a session."""
    return f"live-text:{uid}"


def place_of(folder: Path) -> str:
    """The same for processes that read the same files: a folder, on one start of one machine."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = os.stat(folder)
    return digest(f"{boot_id()} {about.st_dev} {about.st_ino}")[:16]
