"""Whether another process is at work in a folder: then its files are not changed."""

from __future__ import annotations

from perdure.agent.files.branch import SessionFolder, session_folder
from perdure.domain.session import SessionRecord, Status
from perdure.domain.worker import Liveness
from perdure.errors import LeaseHeld
from perdure.runtime.runtime import Runtime
from perdure.store.moves import worker


async def refuse_busy(runtime: Runtime, folder: SessionFolder, what: str, *, but: str | None = None) -> None:
    """Refuse if a session runs in the folder, because the two would overwrite each other's changes."""
    async for one in runtime.sessions(status="running", repository=folder.repository):
        if one.uid != but and await runtime.store.read(session_folder, one) == folder:
            await refuse_held(runtime, one, what)


async def refuse_held(runtime: Runtime, session: SessionRecord, what: str) -> None:
    """Refuse if a process that may be alive runs the session."""
    holder = session.lease_holder or ""
    if session.status != Status.RUNNING or (session.lease_until or 0) < runtime.store.clock.now():
        return
    known = {one.id: one for one in await runtime.store.read(worker.listing)}
    row = known.get(holder.split("@", 1)[0])
    if row is None or runtime.worker.life(row) is not Liveness.DEAD:
        raise LeaseHeld(
            f"{holder} runs session {session.id} in {what}; nothing was changed.",
            hint=f"Wait until it rests, or type `perdure pause {session.id}`.", holder=holder,
        )  # fmt: skip
