"""What `approve` and `deny` share: the vote of one person on one exact call."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from perdure.cli.shell import Shell
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import intent, safe
from perdure.cli.text.waits import continue_line, root_session
from perdure.config import is_service
from perdure.domain.approval import Approval
from perdure.domain.effect import Effect
from perdure.domain.session import SessionRecord
from perdure.errors import Conflict, NotFound
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, effect, principal, quorum, session

DEPTH = 5  # children of children whose approvals are found by the id of the session
COVERS = {
    "once": "",
    "this": " The same call needs no approval in this session any more.",
    "tool": " Calls of {tool} need no approval in this session any more.",
}

Width = Literal["once", "this", "tool"]


def vote(
    shell: Shell, name: str, because: str | None, decision: Literal["approve", "deny"], *, of: str | None,
    width: Width = "once",
) -> None:  # fmt: skip
    """Vote, and print the result."""

    async def work(runtime: Runtime) -> tuple[Approval, Effect, str, SessionRecord, Standing]:
        found = await runtime.store.read(find_approvals, name, of=of)
        if len(found) > 1:
            raise _several(shell, name, found, decision)
        asked, planned, where, root = found[0]
        about: dict[str, Any] = {"session": asked.session_uid, "by": shell.by, "because": because}
        if decision == "deny":
            voted = await runtime.deny(asked.id, **about)
        else:
            voted = await runtime.approve(asked.id, **about, remember=width)
        if is_service(shell.store):
            from perdure.cli.remote.sessions import standing as standing_there

            name_there, counted = await standing_there(runtime, voted)
            standing = Standing(name_there, counted, "")
        else:
            standing = await runtime.store.read(_standing, voted, shell.by)
        whole = planned if is_service(shell.store) else runtime.values.whole(planned)
        return voted, whole, where, root, standing

    voted, planned, where, root, standing = run_with_runtime(shell, work)
    if standing.warning:
        shell.note(f"{standing.warning} Register people with `perdure principals add`.")
    if shell.json:
        shell.echo_json(voted)
        return
    what = f"{safe(voted.id)}, {intent(planned.tool, planned.intent)} in session {safe(where)}"
    by = safe(standing.name)
    if voted.decision is None:
        shell.echo(f"{by} approved {what}.", f"It needs {voted.quorum} votes, and {standing.counted} counts so far.")
    else:
        verb = "approved" if decision == "approve" else "denied"
        covers = COVERS[width].format(tool=safe(planned.tool))
        shell.echo(f"{by} {verb} {what}: it is {voted.decision}.{covers}", continue_line(shell, root))


class Standing(NamedTuple):
    """Under which name a vote was recorded, how many votes count, and what the store cannot enforce."""

    name: str
    counted: int
    warning: str


def _standing(tx: StoreTransaction, voted: Approval, name: str) -> Standing:
    me, governed = principal.voter(tx, tx.identity, name), principal.is_governed(tx)
    counts = quorum.counted(tx, voted) if voted.quorum > 1 else 1
    warning = ""
    if not governed and voted.quorum > 1:
        counts = 0
        warning = f"The gate {voted.gate} counts registered principals only, and this store has none."
    elif not governed and not voted.requester_may_decide:
        warning = "This store has no principals, so it cannot enforce that another person decides."
    return Standing(me.name, counts, warning)


Found = tuple[Approval, Effect, str, SessionRecord]


def find_approvals(tx: StoreTransaction, name: str, of: str | None = None) -> list[Found]:
    """An approval by its id or a prefix of it, or those that a session and its children wait for.

    Each with its effect, the id of its session, and the session to resume.
    """
    if of is not None:
        return [_described(tx, approval.find(tx, name, session.find(tx, of).uid))]
    try:
        exact = session.get_by_id(tx, name)
    except NotFound:
        exact = None
    ids = approval.with_prefix(tx, name, limit=2) if name else []
    if any(one.id == name for one in ids) or (ids and exact is None):
        return [_described(tx, approval.find(tx, name))]
    try:
        found = exact or session.find(tx, name)
    except NotFound:
        raise NotFound(
            f"There is no approval and no session {name!r}.", hint="`perdure approvals` lists pending approvals."
        ) from None
    waiting = _waiting(tx, found.uid, DEPTH)
    if not waiting:
        raise NotFound(
            f"Session {found.id} does not wait for approval.",
            hint=f"`perdure show {found.id}` shows what it waits for.",
        )
    return [_described(tx, one) for one in waiting]


def _waiting(tx: StoreTransaction, uid: str, depth: int) -> list[Approval]:
    found = approval.listing(tx, uid=uid, decision="waiting")
    for child in session.children(tx, uid, limit=1000) if depth else ():
        found += _waiting(tx, child, depth - 1)
    return found


def _described(tx: StoreTransaction, asked: Approval) -> Found:
    planned = effect.get(tx, asked.session_uid, asked.effect_id)
    return asked, planned, session.get(tx, asked.session_uid).id, root_session(tx, asked.session_uid)


def _several(shell: Shell, name: str, found: list[Found], decision: str) -> Conflict:
    """Print each approval with the command to type."""
    commands = [shell.suggest(decision, asked.id) for asked, *_ in found]
    for command, (_, planned, *_) in zip(commands, found, strict=True):
        shell.note(f"    {command}  {intent(planned.tool, planned.intent)}")
    return Conflict(f"Session {name} waits for {len(found)} approvals.", hint=f"Type one of: {'; '.join(commands)}.")
