"""Cancellation: end a session, and remove the folder of a branch that has ended with it."""

from __future__ import annotations

import msgspec

from perdure.agent.files.worktree import FolderRemoval
from perdure.control.branches.prune import clear_folders
from perdure.domain.effect import Effect
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.moves import doubt


class Cancellation(msgspec.Struct, frozen=True):
    """What a request to cancel led to."""

    session: SessionView
    is_held: bool  # a process that may be alive holds the session; it stops after its current step
    unsettled: list[Effect]  # effects that keep the session from ending
    folders: list[FolderRemoval]  # the folder of a branch that has ended


async def cancel_session(runtime: Runtime, name: str, *, by: str) -> Cancellation:
    """Request the end of a session and of its children."""
    found = await runtime.cancel(name, by=by)
    unsettled = await runtime.store.read(doubt.unfinished, found.uid)
    ended = found.forked_from is not None and found.status == "cancelled"
    is_held = found.lease_holder is not None and await runtime.requests.dead_holder(found) is None
    folders = await clear_folders(runtime, only=found.uid) if ended else []
    return Cancellation(found, is_held, unsettled, folders)
