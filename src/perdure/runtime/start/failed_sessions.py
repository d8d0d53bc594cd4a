"""Failed sessions in bulk: they are listed, retried or archived by a filter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from perdure.domain.session import SessionRecord
from perdure.errors import PerdureError, StoreError
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.session_edits import SessionEdits
from perdure.store.moves import failed_session
from perdure.store.moves.failed_session import FailedSessionFilter
from perdure.store.store import Store


class BulkEdit(msgspec.Struct, frozen=True):
    """The ids of the sessions that were changed, and of those that were refused, with the reason."""

    changed: tuple[str, ...]
    refused: dict[str, str]


class FailedSessions:
    """The failed sessions of a store that are not retried any more and not archived."""

    def __init__(self, store: Store, edits: SessionEdits) -> None:
        self._store = store
        self._edits = edits

    def filter(self, *, since: str | float | None = None, **given: str | None) -> FailedSessionFilter:
        """A filter; `since` is a duration back from now."""
        first = 0 if since is None else self._store.clock.now() - microseconds(since)
        return FailedSessionFilter(since=max(0, first), **given)

    async def failed(
        self, *, queue: str | None = None, program: str | None = None, owner: str | None = None,
        error: str | None = None, since: str | float | None = None,
    ) -> AsyncIterator[SessionRecord]:  # fmt: skip
        """Failed sessions that are not retried any more, not archived, and no children.

        `error` is the code or the type of the error; `since` is a duration back from now.
        """
        wanted = self.filter(queue=queue, program=program, owner=owner, error=error, since=since)
        after: str | None = ""
        while after is not None:
            found, after = await self._store.read(failed_session.page, wanted, after)
            for one in found:
                yield one

    async def retry_all(
        self, *, queue: str | None = None, program: str | None = None, owner: str | None = None,
        error: str | None = None, since: str | float | None = None,
        by: str | None = None,
    ) -> BulkEdit:  # fmt: skip
        """Retry every failed session that a filter selects, as `failed` does. A refusal does not stop the others."""
        found = self.failed(queue=queue, program=program, owner=owner, error=error, since=since)
        return await change_each(found, lambda one: self._edits.retry(one.uid, by=by))

    async def archive_all(
        self, *, queue: str | None = None, program: str | None = None, owner: str | None = None,
        error: str | None = None, since: str | float | None = None,
        by: str | None = None,
    ) -> BulkEdit:  # fmt: skip
        """Archive every failed session that a filter selects, as `failed` does."""
        found = self.failed(queue=queue, program=program, owner=owner, error=error, since=since)
        return await change_each(found, lambda one: self._edits.archive(one.uid, by=by))


async def change_each(
    sessions: AsyncIterator[SessionRecord], change: Callable[[SessionRecord], Awaitable[Any]]
) -> BulkEdit:
    """Change each session in transactions of its own. One that is refused does not stop the others; the store does."""
    changed: list[str] = []
    refused: dict[str, str] = {}
    async for one in sessions:
        try:
            await change(one)
        except StoreError:
            raise
        except PerdureError as error:
            refused[one.id] = error.message
        else:
            changed.append(one.id)
    return BulkEdit(tuple(changed), refused)
