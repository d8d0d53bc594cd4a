"""Authorization: whether the caller may do what it asks with what it touches.

What a caller may not see does not exist for it: the answer is the same as for a missing name. What it may see and not
do is refused with `NotAllowed`. Only who sees everything may give the beginning of an id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.domain.caller import Place, Placed, Verb
from perdure.domain.principal import Role
from perdure.domain.session import SessionRecord
from perdure.errors import Conflict, NotAllowed, NotFound
from perdure.ids import check_text
from perdure.server.operation import Context, Operation, Touch, decoded
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, artifact, wait
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions

SEEN_BY = {  # the verb that makes an object visible
    Touch.SESSION: Verb.READ_SESSION,
    Touch.EFFECT: Verb.READ_EFFECT,
    Touch.APPROVAL: Verb.READ_APPROVAL,
    Touch.WAIT: Verb.READ_SESSION,
    Touch.ARTIFACT: Verb.READ_ARTIFACT,
}


def authorize(tx: StoreTransaction, context: Context) -> None:
    """Find what the request touches, and refuse it if the caller may not. A place is checked when the body is read.

    What the same transaction reads after this is what the caller may see.
    """
    operation, caller = context.operation, context.caller
    if not caller.has_role_for(operation.verb):
        raise _refused(context)
    match operation.touches:
        case Touch.SELF | Touch.LISTING | Touch.PLACE | Touch.WORK:
            return
        case Touch.STORE:
            if not caller.may(operation.verb):
                raise _refused(context)
        case Touch.ARTIFACT:
            _authorize_artifact(tx, context)
        case _:
            _authorize_object(tx, context)


def ask_ahead(tx: StoreTransaction, operation: Operation, params: Mapping[str, str]) -> None:
    """Ask the database for what the authorization of a request will look at first."""
    if operation.touches is Touch.SESSION and "\0" not in (id := decoded(params["id"])):
        tx.ask_ahead("session.get_by_id", id=id)
    if operation.shows:
        tx.ask_ahead("policy.newest")


async def authorize_place(context: Context) -> None:
    """Refuse a request for a queue or a repository that the caller may not use."""
    place = context.operation.place
    if place is not None and not context.caller.may(context.operation.verb, await place(context)):
        raise _refused(context)


def owner_of_start(context: Context, named: str | None) -> str:
    """Whom a session that a caller starts belongs to. Budgets and policies go by owner, so few may name another."""
    if named is not None and named != context.by and Role.OWNER not in context.caller.roles:
        raise NotAllowed(
            f"{context.caller.name} may start sessions only as its own, not as those of {named!r:.80}.",
            hint="Leave the owner out. Only the role `owner` may name another one.",
        )
    return named or context.by


def _authorize_object(tx: StoreTransaction, context: Context) -> None:
    touches, caller = context.operation.touches, context.caller
    id, of_session = context.params["id"], None
    if touches is not Touch.SESSION:
        of_session = context.request.query_params.get("session")
    sees_all = caller.may(SEEN_BY[touches])
    find = _find if sees_all else _find_exact
    try:
        context.session, context.found = find(tx, touches, id, of_session)
    except (NotFound, Conflict) as error:
        if sees_all:
            raise
        raise missing(touches, id) from error
    if not caller.may(SEEN_BY[touches], context.session):
        raise missing(touches, id)
    if not caller.may(context.operation.verb, context.session):
        raise _refused(context)


def _find(tx: StoreTransaction, touches: Touch, id: str, session: str | None) -> tuple[SessionRecord, Any]:
    if touches is Touch.SESSION:
        return sessions.find(tx, id), None
    uid = None if session is None else sessions.find(tx, session).uid
    found: Any
    if touches is Touch.EFFECT:
        found = effects.find(tx, id, uid)
    elif touches is Touch.APPROVAL:
        found = approval.find(tx, id, uid)
    else:
        found = wait.find(tx, id, uid)
    return sessions.get(tx, found.session_uid), found


def _find_exact(tx: StoreTransaction, touches: Touch, id: str, session: str | None) -> tuple[SessionRecord, Any]:
    """The same by whole ids: whether a prefix is unique would tell of objects that the caller may not see."""
    if touches is Touch.SESSION:
        return find_session_exactly(tx, id), None
    uid = None if session is None else find_session_exactly(tx, session).uid
    if touches is Touch.WAIT:
        found: Any = wait.find(tx, id, uid)
        return sessions.get(tx, found.session_uid), found
    with_prefix: Any = effects.with_prefix if touches is Touch.EFFECT else approval.with_prefix
    named = [one for one in with_prefix(tx, check_text("The id", id), uid=uid, limit=2) if one.id == id]  # by id
    if len(named) != 1:
        raise missing(touches, id)
    return sessions.get(tx, named[0].session_uid), named[0]


def find_session_exactly(tx: StoreTransaction, name: str) -> SessionRecord:
    """A session by its id or its uid, and not by a prefix."""
    row = tx.one("session.get_by_id", id=check_text("The session id", name))
    found = sessions.get(tx, name) if row is None else SessionRecord.from_row(row)
    if found.removed_at is not None:
        raise missing(Touch.SESSION, name)
    return found


def _authorize_artifact(tx: StoreTransaction, context: Context) -> None:
    """An artifact is visible through any session that has it. Only who sees everything may give a prefix of it."""
    digest, caller, verb = context.params["digest"], context.caller, context.operation.verb
    sees_all = caller.may(verb)
    if sees_all:
        digest = artifact.find_digest(tx, digest)
    context.found = artifact.claims(tx, digest)
    sessions_of = dict.fromkeys(one.session_uid for one in context.found)
    if not any(sees_all or caller.may(verb, _place(tx, uid)) for uid in sessions_of):
        raise missing(Touch.ARTIFACT, digest)


def _refused(context: Context) -> NotAllowed:
    verb = context.operation.verb
    return NotAllowed(f"{context.caller.name} may not do this here ({verb}).")


def missing(touches: Touch, id: str) -> NotFound:
    return NotFound(
        f"There is no {touches} {id!r:.80}.", hint="The list operations show what you may see. Give the whole id."
    )


def missing_name(kind: str, name: str) -> NotFound:
    return NotFound(f"There is no {kind} {name!r:.80}.", hint="The list operations show what you may see.")


async def place_of_session(context: Context, name: str | None) -> Placed:
    """Where a session is that a body names; without one, nowhere: then only the scope `*` covers it."""
    if name is None:
        return Place()
    uid = await Sight(context, Verb.READ_SESSION).session_uid(name)
    assert uid is not None
    return await context.store.read(sessions.get, uid)


class Sight:
    """What a caller may see of many objects; the places of their sessions are read once each."""

    def __init__(self, context: Context, verb: Verb | None = None) -> None:
        self._context = context
        self._verb = verb or context.operation.verb
        self._all = context.caller.may(self._verb)
        self._seen: dict[str, bool] = {}

    @property
    def sees_all(self) -> bool:
        return self._all

    def sees(self, on: Placed) -> bool:
        return self._all or self._context.caller.may(self._verb, on)

    async def session_uid(self, name: str | None) -> str | None:
        """The session that a list is limited to; one that the caller may not see does not exist for it."""
        if name is None:
            return None
        try:
            found = await self._context.store.read(sessions.find if self._all else find_session_exactly, name)
        except (NotFound, Conflict) as error:
            if self._all:
                raise
            raise missing(Touch.SESSION, name) from error
        if not self.sees(found):
            raise missing(Touch.SESSION, name)
        return found.uid

    async def sees_session(self, uid: str) -> bool:
        if self._all:
            return True
        if uid not in self._seen:
            self._seen[uid] = self.sees(await self._context.store.read(_place, uid))
        return self._seen[uid]


def _place(tx: StoreTransaction, uid: str) -> Place:
    found = sessions.get(tx, uid)
    return Place(found.queue, found.repository_id)
