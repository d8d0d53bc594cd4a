"""The files of an agent's session and of its branches: at any event, between any two, and which are kept.

Everything here only looks, but for `prune`, which drops what no session names.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from perdure.agent.branching import Folder, beside_of, folder_of, home_of, merge_branch, open_worktree
from perdure.agent.pruning import Pruned
from perdure.agent.reading import END, state_of
from perdure.agent.snapshot import Snapshots
from perdure.agent.transcript import State
from perdure.domain.effect import Effect
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, NotFound, SessionWaiting
from perdure.ids import encode
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store import effect as effects
from perdure.store import message
from perdure.store import session as sessions
from perdure.store.move import Transaction


class Files(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a branch at an event of a session begins with. None where there is nothing to say."""

    is_agent: bool
    folder: str | None = None  # the repository that the session works on
    snapshot: str | None = None
    has_place: bool = True  # there is somewhere to put a folder for the branch
    missing: str | None = None  # what cannot be had outside git
    between: int | None = None  # calls that had begun and were not answered: what they changed is not there


class Side(msgspec.Struct, frozen=True):
    """One of two things that are compared."""

    session: str
    event: int
    snapshot: str


class Difference(msgspec.Struct, frozen=True):
    """What differs from one snapshot to another, as a unified diff."""

    before: Side
    after: Side
    text: str


async def files_at(runtime: Runtime, name: str, number: int | None = None) -> Files:
    """What a branch of a session at event `number` would begin with."""
    session = await runtime.store.read(sessions.find, name)
    at = session.cursor if number is None else number
    state, folder = await runtime.store.read(_at, session, at)
    newest, _ = await runtime.store.read(_at, session, END)
    is_agent = bool(newest.lines or newest.summary)
    if folder is None or not is_agent:
        return Files(is_agent)
    home = home_of(folder.repository, beside_of(runtime))
    missing = None if home is None else await asyncio.to_thread(lambda: _open(folder, home).missing)
    between = len(await runtime.store.read(begun_calls, session, state, at)) or None
    return Files(is_agent, folder.repository, state.snapshot, home is not None, missing, between)


def begun_calls(tx: Transaction, session: SessionRecord, state: State, number: int) -> dict[int, Effect]:
    """Of the calls that were open at an event, those that had become effects of the session by then."""
    wanted = {encode(["call", one.line.uid, one.line.number, one.nth]): one.nth for one in state.open_calls()}
    planned = effects.of_session(tx, session.uid, through=number) if wanted else []
    return {wanted[at]: one for one in planned if (at := encode(one.position)) in wanted}


async def diff(
    runtime: Runtime, name: str, *, first: int | None = None, last: int | None = None, parent: bool = False,
    stat: bool = False,
) -> Difference:  # fmt: skip
    """A session against its start, or a branch against its fork; from one event to another; or against its parent."""
    session = await runtime.store.read(sessions.find, name)
    before, after, folder = await runtime.store.read(_sides, session, first, last, parent)
    home = None if folder is None else home_of(folder.repository, beside_of(runtime))
    if folder is None or home is None:
        raise NotFound(f"Session {session.id} works in no folder; no files of it are kept.", hint="Start it with one.")
    text = await asyncio.to_thread(lambda: _open(folder, home).diff(before.snapshot, after.snapshot, stat=stat))
    return Difference(before, after, text)


def _sides(
    tx: Transaction, session: SessionRecord, first: int | None, last: int | None, parent: bool
) -> tuple[Side, Side, Folder | None]:
    after = _side(tx, session, session.cursor if last is None else last)
    if parent or (first is None and session.forked_from is not None):
        if session.forked_from is None:
            raise ConfigError(f"Session {session.id} is no branch.", hint="Leave --parent out.")
        origin = sessions.get(tx, session.forked_from)
        before = _side(tx, origin, origin.cursor if parent else session.forked_at or 0)
    elif first is not None:
        before = _side(tx, session, first)
    else:
        state, _ = _at(tx, session, END)
        before = Side(session.id, 1, state.started or after.snapshot)
    return before, after, folder_of(tx, session)


def _side(tx: Transaction, session: SessionRecord, number: int) -> Side:
    if not 1 <= number <= session.cursor:
        raise ConfigError(f"Session {session.id} has the events 1 to {session.cursor}, and no event {number}.")
    state, _ = _at(tx, session, number)
    if state.snapshot is None:
        raise NotFound(
            f"No files are recorded for session {session.id} at event {number}.",
            hint="Files are kept for agents that work in a folder, from their first line on.",
        )
    return Side(session.id, number, state.snapshot)


def _at(tx: Transaction, session: SessionRecord, number: int) -> tuple[State, Folder | None]:
    return state_of(tx, session, number)[0], folder_of(tx, session)


def _open(folder: Folder, home: Path) -> Snapshots:
    return Snapshots(Path(folder.repository), home)


async def rested(runtime: Runtime, uid: str) -> SessionView:
    """Run a session until it rests, through whatever time has to pass after a crash."""
    try:
        return await runtime.complete(uid)
    except SessionWaiting:
        return await runtime.get(uid)


async def prune(runtime: Runtime, *, grace: int = 3600) -> dict[str, Pruned]:
    """Drop the snapshots that no line and no effect of any session names, repository by repository.

    Only those beside this store are touched: elsewhere, sessions of another store may name them. What is younger than
    `grace` seconds stays, because its line may not be written yet.
    """
    named: dict[str, set[str]] = {}
    async for one in runtime.sessions():
        if one.repository is not None:
            named.setdefault(one.repository, set()).update(await runtime.store.read(_named, one.uid))
    beside = beside_of(runtime)
    done: dict[str, Pruned] = {}
    for repository, keep in named.items():
        home = home_of(repository, beside)
        if home is not None and beside is not None and beside.resolve() in home.parents:
            found = await asyncio.to_thread(_prune, Path(repository), home, sorted(keep), grace)
            done |= {} if found is None else {repository: found}
    return done


def _prune(repository: Path, home: Path, keep: list[str], grace: int) -> Pruned | None:
    there = repository.is_dir() and home.is_dir()
    return Snapshots(repository, home).prune(keep, grace=grace) if there else None


def _named(tx: Transaction, uid: str) -> set[str]:
    said = {one.body.get("snapshot") for one in message.between(tx, uid, 1) if isinstance(one.body, dict)}
    acts = [one.intent for one in effects.of_session(tx, uid) if one.tool in (merge_branch.name, open_worktree.name)]
    said |= {act.get(name) for act in acts for name in ("snapshot", "base", "ours", "theirs")}
    return {name for name in said if name}
