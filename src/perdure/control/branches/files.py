"""The files of an agent's session and of its branches: at any event, and what changed between two.

Everything here only reads; `prune` removes what is no longer needed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from perdure.agent.files.branch import SessionFolder, session_folder, snapshot_folder, storage_folder
from perdure.agent.files.snapshot import Snapshots
from perdure.agent.history.state_reader import END, state_of
from perdure.agent.history.transcript import State
from perdure.domain.effect import Effect
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, NotFound, SessionWaiting
from perdure.ids import encode
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions


class BranchFiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a branch at an event of a session starts with. None where it does not apply."""

    is_agent: bool
    folder: str | None = None  # the repository that the session works on
    snapshot: str | None = None
    has_place: bool = True  # there is a place for the folder of the branch
    missing: str | None = None  # what is not available outside git
    not_kept: list[str] = []  # files that existed at that event and are in no snapshot
    between: int | None = None  # calls in progress at that event: their changes are not included


class DiffSide(msgspec.Struct, frozen=True):
    """One of the two sides of a comparison."""

    session: str
    event: int
    snapshot: str
    not_kept: list[str] = []  # files that existed and are not compared


class FileDiff(msgspec.Struct, frozen=True):
    """The difference between two snapshots, as a unified diff."""

    before: DiffSide
    after: DiffSide
    text: str


async def files_at(runtime: Runtime, name: str, number: int | None = None) -> BranchFiles:
    """What a branch of a session at event `number` would start with."""
    session = await runtime.store.read(sessions.find, name)
    at = session.cursor if number is None else number
    state, folder = await runtime.store.read(_at, session, at)
    newest, _ = await runtime.store.read(_at, session, END)
    is_agent = bool(newest.lines or newest.summary)
    if folder is None or not is_agent:
        return BranchFiles(is_agent)
    home = snapshot_folder(folder.repository, storage_folder(runtime))
    missing = None if home is None else await asyncio.to_thread(lambda: _open(folder, home).missing)
    between = len(await runtime.store.read(begun_calls, session, state, at)) or None
    return BranchFiles(is_agent, folder.repository, state.snapshot, home is not None, missing, state.not_kept, between)


def begun_calls(tx: StoreTransaction, session: SessionRecord, state: State, number: int) -> dict[int, Effect]:
    """The calls open at an event that were effects of the session by then, by their index."""
    wanted = {encode(["call", one.line.uid, one.line.number, one.nth]): one.nth for one in state.open_calls()}
    planned = effects.of_session(tx, session.uid, through=number) if wanted else []
    return {wanted[at]: one for one in planned if (at := encode(one.position)) in wanted}


async def diff(
    runtime: Runtime, name: str, *, first: int | None = None, last: int | None = None, parent: bool = False,
    stat: bool = False,
) -> FileDiff:  # fmt: skip
    """Compare a session with its start, a branch with its fork or its parent, or two events of a session."""
    session = await runtime.store.read(sessions.find, name)
    folder, home = _place_of(runtime, session, await runtime.store.read(session_folder, session))
    before, after = await runtime.store.read(_sides, session, first, last, parent)
    text = await asyncio.to_thread(lambda: _open(folder, home).diff(before.snapshot, after.snapshot, stat=stat))
    return FileDiff(before, after, text)


def _place_of(runtime: Runtime, session: SessionRecord, folder: SessionFolder | None) -> tuple[SessionFolder, Path]:
    """The folder of a session and the place of its snapshots. Raises `NotFound` if there is none."""
    if folder is None:
        raise NotFound(
            f"Session {session.id} works in no folder, so it has no snapshots.", hint="Start it with a repository."
        )
    beside = storage_folder(runtime)
    if beside is None:
        raise NotFound(
            f"Session {session.id} has no snapshots: this store has no folder for them, and none is set here.",
            hint="Set `artifacts` (PERDURE_ARTIFACTS) to a folder that its workers share.",
        )
    if (home := snapshot_folder(folder.repository, beside)) is None:
        raise NotFound(
            f"Session {session.id} has no snapshots: they would be inside the folder that it works in.",
            hint="Move the store out of that folder.",
        )
    return folder, home


def _sides(
    tx: StoreTransaction, session: SessionRecord, first: int | None, last: int | None, parent: bool
) -> tuple[DiffSide, DiffSide]:
    after = side_at(tx, session, session.cursor if last is None else last)
    if parent or (first is None and session.forked_from is not None and not _is_copy(tx, session)):
        if session.forked_from is None:
            raise ConfigError(f"Session {session.id} is not a branch.", hint="Leave --parent out.")
        origin = sessions.get(tx, session.forked_from)
        before = side_at(tx, origin, origin.cursor if parent else session.forked_at or 0)
    elif first is not None:
        before = side_at(tx, session, first)
    else:
        state, _ = _at(tx, session, END)
        before = DiffSide(session.id, 1, state.started or after.snapshot)
    return before, after


def _is_copy(tx: StoreTransaction, session: SessionRecord) -> bool:
    """Whether it continues, from its end, a session of another store: then that one's start is also its own."""
    origin = sessions.get(tx, session.forked_from or "")
    return origin.sealed_at is not None and session.forked_at == origin.cursor


def side_at(tx: StoreTransaction, session: SessionRecord, number: int) -> DiffSide:
    """The files of a session at one of its events."""
    if not 1 <= number <= session.cursor:
        raise ConfigError(
            f"Session {session.id} has no event {number}; its events are 1 to {session.cursor}.",
            hint=f"`perdure show {session.id} --last 100` shows its events.",
        )
    state, _ = _at(tx, session, number)
    if state.snapshot is None:
        raise NotFound(
            f"Session {session.id} has no snapshot at event {number}.",
            hint="Only agents that work in a folder have snapshots, from their first message on.",
        )
    return DiffSide(session.id, number, state.snapshot, state.not_kept)


def _at(tx: StoreTransaction, session: SessionRecord, number: int) -> tuple[State, SessionFolder | None]:
    return state_of(tx, session, number)[0], session_folder(tx, session)


def _open(folder: SessionFolder, home: Path) -> Snapshots:
    return Snapshots(Path(folder.repository), home)


async def run_until_idle(runtime: Runtime, uid: str) -> SessionView:
    """Run a session until it rests, including the time that recovery after a crash must wait."""
    try:
        return await runtime.complete(uid)
    except SessionWaiting:
        return await runtime.get(uid)
