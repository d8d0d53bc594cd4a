"""What all actors of a trial share: the family of sessions, and how much each actor does."""

from __future__ import annotations

from pathlib import Path

import msgspec

STOP = "stop"


class ActorTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A trial as every process of it gets it."""

    target: str  # the address of a store, or a folder with blobs
    folder: str  # where histories are written
    seed: int
    sessions: int
    messages: int  # for each session
    pauses: int
    history: int = 0  # messages of 1 KB that each session has before
    workers: int = 2
    lock: bool = True  # of blobs

    @property
    def is_store(self) -> bool:
        """Whether the target is a store of Perdure, not a folder with blobs."""
        return self.target.startswith(("postgresql:", "files:")) or self.target.endswith(".db")

    @property
    def names(self) -> list[str]:
        """The sessions of the family; the last one is cancelled while messages still come."""
        return [f"member-{number}" for number in range(self.sessions)]

    @property
    def victim(self) -> str:
        return self.names[-1]

    @property
    def meeting(self) -> Path:
        """Where two processes of the control meet."""
        return Path(self.folder, "meeting")

    @property
    def given_up(self) -> Path:
        """This file says that the sessions will not end: an update that would end them was lost."""
        return Path(self.folder, "given_up")

    def is_given_up(self) -> bool:
        return self.given_up.exists()


def is_gated(number: int) -> bool:
    """Whether the message with this number, from 1, needs an approval before it is acted on."""
    return number % 3 == 0
