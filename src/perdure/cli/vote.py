"""What `approve` and `deny` share: the vote of one person on one exact call."""

from __future__ import annotations

from typing import Literal

from perdure.cli.shell import Shell
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import intent, safe
from perdure.cli.text.waits import continue_line, root_session_id
from perdure.domain.approval import Approval
from perdure.domain.effect import Effect
from perdure.errors import Conflict, NotFound
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, effect, session

DEPTH = 5  # children of children whose approvals are found by the id of the session
COVERS = {
    "once": "",
    "this": " The same call needs no approval in this session any more.",
    "tool": " Calls of {tool} need no approval in this session any more.",
}

Width = Literal["once", "this", "tool"]


def vote(
    shell: Shell, name: str, because: str | None, decision: Literal["approve", "deny"], width: Width = "once"
) -> None:
    """Vote, and print the result."""

    async def work(runtime: Runtime) -> tuple[Approval, Effect, str, str]:
        found = await runtime.store.read(find_approvals, name)
        if len(found) > 1:
            raise _several(shell, name, found, decision)
        asked, planned, of, root = found[0]
        if decision == "deny":
            voted = await runtime.deny(asked.id, by=shell.by, because=because)
        else:
            voted = await runtime.approve(asked.id, by=shell.by, because=because, remember=width)
        return voted, runtime.values.whole(planned), of, root

    voted, planned, of, root = run_with_runtime(shell, work)
    if shell.json:
        shell.echo_json(voted)
        return
    what = f"{safe(voted.id)}, {intent(planned.tool, planned.intent)} in session {safe(of)}"
    if voted.decision is None:
        shell.echo(f"{safe(shell.by)} approved {what}.", f"It needs {voted.quorum} votes; other people must vote too.")
    else:
        verb = "approved" if decision == "approve" else "denied"
        covers = COVERS[width].format(tool=safe(planned.tool))
        shell.echo(f"{safe(shell.by)} {verb} {what}: it is {voted.decision}.{covers}", continue_line(shell, root))


Found = tuple[Approval, Effect, str, str]


def find_approvals(tx: StoreTransaction, name: str) -> list[Found]:
    """An approval by its id or a prefix of it, or those that a session and its children wait for.

    Each with its effect, the id of its session, and that of the session to resume.
    """
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
    return asked, planned, session.get(tx, asked.session_uid).id, root_session_id(tx, asked.session_uid)


def _several(shell: Shell, name: str, found: list[Found], decision: str) -> Conflict:
    """Print each approval with the command to type."""
    commands = [shell.suggest(decision, asked.id) for asked, *_ in found]
    for command, (_, planned, *_) in zip(commands, found, strict=True):
        shell.note(f"    {command}  {intent(planned.tool, planned.intent)}")
    return Conflict(f"Session {name} waits for {len(found)} approvals.", hint=f"Type one of: {'; '.join(commands)}.")
