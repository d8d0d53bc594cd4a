"""Cancellation and interruption: end a session, or stop what it does now.

The folder of a branch that has ended is removed with it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from perdure.agent.files.worktree import FolderRemoval
from perdure.control.branches.prune import clear_folders
from perdure.domain.effect import Effect
from perdure.domain.session import Status
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.moves import doubt

PATIENCE = 3.0  # seconds


class Cancellation(msgspec.Struct, frozen=True):
    """What a request to cancel led to."""

    session: SessionView
    is_held: bool  # a process that may be alive holds the session; it stops after its current step
    unsettled: list[Effect]  # effects that keep the session from ending
    folders: list[FolderRemoval]  # the folder of a branch that has ended


async def interrupt_session(runtime: Runtime, name: str, *, by: str) -> SessionView:
    """Request that a session stops now, and wait a moment for it."""
    return await wait_for_stop(runtime, await runtime.interrupt(name, by=by))


async def wait_for_stop(runtime: Runtime, view: SessionView) -> SessionView:
    """The session when it has stopped, or after `PATIENCE` seconds: it may be in an act that cannot be stopped."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while view.status == Status.RUNNING or view.interrupt_requested_at is not None:
                seen = runtime.store.wakeups.version
                view = await runtime.get(view.uid)
                if view.status == Status.RUNNING or view.interrupt_requested_at is not None:
                    await runtime.store.wakeups.wait(seen, view.uid)
    return view


async def cancel_session(runtime: Runtime, name: str, *, by: str, now: bool = False) -> Cancellation:
    """Request the end of a session and of its children; with `now`, stop what they do, and wait a moment for it."""
    found = await runtime.cancel(name, by=by, now=now)
    if now and found.status == Status.RUNNING:
        found = await wait_for_stop(runtime, found)
    unsettled = await runtime.store.read(doubt.unfinished, found.uid)
    ended = found.forked_from is not None and found.status == "cancelled"
    is_held = found.lease_holder is not None and await runtime.requests.dead_holder(found) is None
    folders = await clear_folders(runtime, only=found.uid) if ended else []
    return Cancellation(found, is_held, unsettled, folders)
