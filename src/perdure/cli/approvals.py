"""`perdure approvals`: what waits for a person's yes or no."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.command import Shell, command

if TYPE_CHECKING:
    from perdure.domain.approval import Approval
    from perdure.store.move import Transaction

HEADINGS = ("approval", "session", "gate", "asked", "decision", "expires", "what~")
DECIDED = (*HEADINGS[:5], "by", "because~", *HEADINGS[5:])  # with --all


@command
@click.option("--all", "everything", is_flag=True, help="Also those that are decided.")
@click.option("--session", metavar="ID", help="Only approvals of this session.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
def approvals(shell: Shell, everything: bool, session: str | None, limit: int) -> None:
    """List what waits for a person's yes or no, the longest wait first.

    With --all, those that are decided follow, each with who decided it and why. With --json, every vote is there.
    """
    from perdure.cli.grid import grid
    from perdure.cli.opening import reading
    from perdure.store import approval
    from perdure.store import session as sessions

    with reading(shell) as tx:
        uid = None if session is None else sessions.find(tx, session).uid
        found = approval.listing(tx, uid=uid, decision=None if everything else "waiting", limit=limit + 1)
        if shell.json:
            for one in found[:limit]:
                shell.emit(with_votes(tx, one))
            return
        rows = [row(tx, one, decided=everything) for one in found[:limit]]
    if not rows:
        shell.say("No approval is there." if everything else "Nothing waits for approval.")
        return
    shell.say(*grid(DECIDED if everything else HEADINGS, rows, width=shell.width))
    if len(found) > limit:
        shell.say("", f"There are more; these are the first {limit}. --limit shows more.")
    if any(one.decision is None for one in found):
        first = next(one.id for one in found if one.decision is None)
        shell.say("", *(f"  {shell.again(word, first, '--because', 'TEXT')}" for word in ("approve", "deny")))


def with_votes(tx: Transaction, one: Approval) -> dict[str, Any]:
    """An approval as `--json` shows it: with the name, the decision and the reason of everyone who voted."""
    from perdure.store import approval

    return one.to_dict() | {"votes": approval.votes(tx, one.session_uid, one.id)}


def decided_by(tx: Transaction, one: Approval) -> tuple[str, str]:
    """Who decided an approval, and why; two empty texts if it was not decided by a vote."""
    from perdure.cli.plain import safe
    from perdure.store import approval

    votes = [vote for vote in approval.votes(tx, one.session_uid, one.id) if vote.decision == one.decision]
    reasons = [f"{vote.voter}: {vote.rationale}" if len(votes) > 1 else vote.rationale for vote in votes]
    return ", ".join(safe(vote.voter) for vote in votes), "; ".join(reasons)


def row(tx: Transaction, one: Approval, *, decided: bool) -> list[str]:
    from perdure.cli.plain import call, safe, short, span
    from perdure.store import approval, effect, session

    planned = effect.get(tx, one.session_uid, one.effect_id)
    yes = sum(vote.decision == "approved" for vote in approval.votes(tx, one.session_uid, one.id))
    waiting = f"{yes} of {one.quorum}" if one.quorum > 1 else "waiting"
    expires = "" if one.expires_at is None or one.decision is not None else f"in {span(one.expires_at - tx.now)}"
    voters, why = decided_by(tx, one)
    return [
        safe(one.id), safe(session.get(tx, one.session_uid).id), safe(one.gate), f"{span(tx.now - one.asked_at)} ago",
        one.decision or waiting, *((voters, short(why)) if decided else ()), expires,
        call(planned.tool, planned.intent),
    ]  # fmt: skip
