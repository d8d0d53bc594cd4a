"""What people do with whole sessions: choose another model, retry, archive, remove.

Each is one move under the session's row lock, so a process that is killed leaves it done or not begun.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.session import SessionRecord, Status
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, IllegalMove
from perdure.runtime.definitions.program import get_program
from perdure.runtime.queries import Queries, SessionView
from perdure.runtime.run.large_values import Values
from perdure.store.databases.files.database import FilesDatabase
from perdure.store.move import Move
from perdure.store.moves import session_code, session_end, session_model, session_removal, session_retry, wait
from perdure.store.moves.session_removal import Removal
from perdure.store.store import Store


class SessionEdits:
    """Changes of sessions by people. `by` is who makes them, unless a call names another person."""

    def __init__(self, store: Store, queries: Queries, values: Values, by: str) -> None:
        self._store = store
        self._queries = queries
        self._values = values
        self._by = by

    async def set_model(self, name: str, model: str, *, by: str | None = None) -> SessionView:
        """Choose another model for an agent's session, from its next model call on; refused if it cannot be used."""
        view = await self._queries.get(name)
        get_program(view.program).open_model(model, self._values.of_session(view).arguments)  # refused: not recorded
        await self._store.write(session_model.set_model(view.uid, by or self._by, model))
        return await self._queries.get(view.uid)

    async def retry(self, name: str, *, by: str | None = None) -> SessionView:
        """Make a failed session ready to run again in place: only what ended it is repeated, nothing settled is.

        If its child failed, the child is retried first: a process that is killed in between leaves the child retried,
        and the session failed. All of them are checked before the first is retried, because a refusal must not leave a
        child running. A session that waits for its next retry without a person is retried now.
        """
        view = await self._queries.get(name)
        if pending := [one for one in view.waits if one.retry_numbers is not None]:
            await self._store.write(wait.resolve(view.uid, by or self._by, pending[0].id))
            return await self._queries.get(view.uid)
        for move in await self._retries(view, by or self._by, with_parent=False):
            await self._store.write(move)
        return await self._queries.get(view.uid)

    async def _retries(self, view: SessionView, by: str, *, with_parent: bool) -> list[Move[None]]:
        """The retries of a session and of the children that caused its failure, the children first."""
        again = await self._store.read(session_retry.check, view, with_parent=with_parent)
        error = view.error if isinstance(view.error, dict) else {}
        lines = get_program(view.program).retry_lines(error)
        children = await self._child_retries(view, again, by)
        return [*children, session_retry.retry(view.uid, by, with_parent=with_parent, lines=lines)]

    async def before_own_retry(self, session: SessionRecord, error: Any, by: str) -> bool:
        """Retry the children whose failure ended a session that has retries left; False: it is not retried itself.

        Its next run waits for them again. A process that is killed afterwards has retried the children only, and the
        next one finds that the session ends with the same error.
        """
        now = msgspec.structs.replace(session, error=error)
        try:
            if not session_retry.has_retry_left(now, error):
                return False
            again = await self._store.read(session_retry.to_repeat, now, error)
            for move in await self._child_retries(now, again, by):
                await self._store.write(move)
        except IllegalMove:  # what ended it, or a child, must stay as it is
            return False
        return True

    async def _child_retries(self, view: SessionRecord, again: list[int], by: str) -> list[Move[None]]:
        """The retries of the children that caused a failure."""
        moves: list[Move[None]] = []
        for asked in await self._store.read(wait.of_session, view.uid) if again else ():
            if asked.number not in again or asked.kind != WaitKind.CHILD:
                continue
            child = await self._queries.get(str(asked.ref))
            if child.status == Status.FAILED:
                moves += await self._retries(child, by, with_parent=True)
            elif child.status == Status.CANCELLED:
                raise IllegalMove(
                    f"Session {view.id} cannot be retried: its child {child.id} was cancelled.",
                    hint=f"Branch before the child began: `perdure fork {view.id} --at {asked.number - 1}`.",
                )
        return moves

    async def archive(self, name: str, *, undo: bool = False, by: str | None = None) -> SessionView:
        """Hide a session from the list, or with `undo` show it again. A message or a resume shows it again too."""
        view = await self._queries.get(name)
        await self._store.write(session_end.archive(view.uid, by or self._by, undo=undo))
        return await self._queries.get(view.uid)

    async def unpin(self, name: str, *, by: str | None = None) -> SessionView:
        """Let workers of any version of the code run a session that was pinned to its version."""
        view = await self._queries.get(name)
        await self._store.write(session_code.unpin(view.uid, by or self._by))
        return await self._queries.get(view.uid)

    async def removal(self, name: str) -> Removal:
        """What a removal of a session would forget; refused if the session cannot be removed."""
        return await self._store.read(session_removal.preview, await self._queries.get(name))

    async def remove(self, name: str, *, because: str, by: str | None = None) -> Removal:
        """Forget the content of a session, for a reason. Its id is not used again, so that no effect is repeated."""
        view = await self._queries.get(name)
        if isinstance(self._store.database, FilesDatabase):
            raise ConfigError(
                "A store of text files keeps every line, so no session can be removed from it.",
                hint="Archive the session, or delete the whole folder.",
            )
        forgotten = await self._store.read(session_removal.preview, view)
        await self._store.write(session_removal.remove(view.uid, by or self._by, because=because))
        return forgotten
