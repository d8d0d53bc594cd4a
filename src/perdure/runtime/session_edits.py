"""What people do with whole sessions: choose another model.

Each is one move under the session's row lock, so a process that is killed leaves it done or not begun.
"""

from __future__ import annotations

from perdure.runtime.definitions.program import get_program
from perdure.runtime.queries import Queries, SessionView
from perdure.runtime.run.large_values import Values
from perdure.store.moves import session_model
from perdure.store.store import Store


class SessionEdits:
    """Changes of sessions by people. `by` is who makes them, unless a call names another person."""

    def __init__(self, store: Store, queries: Queries, values: Values, by: str) -> None:
        self._store = store
        self._queries = queries
        self._values = values
        self._by = by

    async def set_model(self, name: str, model: str, *, by: str | None = None) -> SessionView:
        """Choose another model for an agent's session, from its next model call on.

        It is opened here first, so that a name without a provider or without a key is refused and not recorded.
        """
        view = await self._queries.get(name)
        get_program(view.program).open_model(model, self._values.of_session(view).arguments)
        await self._store.write(session_model.set_model(view.uid, by or self._by, model))
        return await self._queries.get(view.uid)
