"""`perdure approvals`: what waits for a person's yes or no."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, command

if TYPE_CHECKING:
    from perdure.domain.approval import Approval
    from perdure.domain.effect import Effect
    from perdure.store.move import StoreTransaction

HEADINGS = ("approval", "session", "gate", "asked", "decision", "expires", "what~")
DECIDED = (*HEADINGS[:5], "by", "because~", *HEADINGS[5:])  # with --all


@command
@click.argument("id", required=False)
@click.option("--all", "everything", is_flag=True, help="Also those that are decided.")
@click.option("--session", metavar="ID", help="Only approvals of this session.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
def approvals(shell: Shell, id: str | None, everything: bool, session: str | None, limit: int) -> None:
    """List what waits for a person's yes or no, the longest wait first.

    With ID, the whole of one approval is shown, however long its intent is.

    With --all, those that are decided follow, each with who decided it and why. With --json, the intent and every vote
    are there.
    """
    from perdure.cli.store_access import read_store
    from perdure.cli.text.grid import grid
    from perdure.store.moves import approval
    from perdure.store.moves import session as sessions

    with read_store(shell) as tx:
        if id is not None:
            one = approval.find(tx, id)
            shell.echo_json(with_votes(shell, tx, one)) if shell.json else shell.echo(*whole(shell, tx, one))
            return
        uid = None if session is None else sessions.find(tx, session).uid
        found = approval.listing(tx, uid=uid, decision=None if everything else "waiting", limit=limit + 1)
        if shell.json:
            for one in found[:limit]:
                shell.echo_json(with_votes(shell, tx, one))
            return
        calls = [_call(shell, tx, one) for one in found[:limit]]
        rows = [row(tx, one, what, decided=everything) for one, what in zip(found, calls, strict=False)]
    if not rows:
        shell.echo("No approval is there." if everything else "Nothing waits for approval.")
        return
    lines = grid(DECIDED if everything else HEADINGS, rows, width=shell.width)
    shell.echo(*lines)
    _say_what_is_cut(shell, found, calls, lines[1:])
    if len(found) > limit:
        shell.echo("", f"There are more; these are the first {limit}. --limit shows more.")
    if any(one.decision is None for one in found):
        first = next(one.id for one in found if one.decision is None)
        shell.echo("", *(f"  {shell.suggest(word, first, '--because', 'TEXT')}" for word in ("approve", "deny")))


def _say_what_is_cut(shell: Shell, found: list[Approval], calls: list[str], lines: list[str]) -> None:
    from perdure.cli.text.plain import count, safe

    cut = [(one, hidden(what, line)) for one, what, line in zip(found, calls, lines, strict=False)]
    if any(number for _, number in cut):
        shell.echo("", *(f"{safe(one.id)}: {count(number, 'character')} not shown" for one, number in cut if number))
        shell.echo(f"`{shell.suggest('approvals', 'ID')}` shows the whole of one. Read it before you decide.")


def hidden(what: str, line: str) -> int:
    """How many characters of a call are not in its line of the table."""
    seen = len(what)
    while what[:seen] not in line:
        seen -= 1
    return len(what) - seen


def planned(shell: Shell, tx: StoreTransaction, one: Approval) -> Effect:
    """The effect that an approval is about, with its arguments."""
    from perdure.cli.commands.effects import shown
    from perdure.store.moves import effect

    return shown(shell, effect.get(tx, one.session_uid, one.effect_id))


def _call(shell: Shell, tx: StoreTransaction, one: Approval) -> str:
    from perdure.cli.text.plain import whole_call

    about = planned(shell, tx, one)
    return whole_call(about.tool, about.intent)


def whole(shell: Shell, tx: StoreTransaction, one: Approval) -> list[str]:
    """Everything that a person decides about, uncut."""
    from perdure.cli.text.intent import lines_of
    from perdure.cli.text.plain import safe, span
    from perdure.ids import encode
    from perdure.store.moves import session

    about = planned(shell, tx, one)
    voters, why = decided_by(tx, one)
    facts = {
        "approval": one.id, "session": session.get(tx, one.session_uid).id, "gate": one.gate, "asked by": one.requester,
        "asked": f"{span(tx.now - one.asked_at)} ago", "votes needed": str(one.quorum),
        "decision": f"{one.decision} by {voters or 'nobody'}: {why}" if one.decision else "waiting",
        "targets": encode(about.targets), "intent digest": one.intent_digest, "tool": about.tool,
    }  # fmt: skip
    return [*(f"{name.ljust(13)}  {safe(said)}" for name, said in facts.items()), *map(str, lines_of(about, None))]


def with_votes(shell: Shell, tx: StoreTransaction, one: Approval) -> dict[str, Any]:
    """An approval as `--json` shows it: what exactly is asked, and the name, decision and reason of every voter."""
    from perdure.store.moves import approval

    about = planned(shell, tx, one)
    asked = {"tool": about.tool, "intent": about.intent, "targets": about.targets}
    return one.to_dict() | asked | {"votes": approval.votes(tx, one.session_uid, one.id)}


def decided_by(tx: StoreTransaction, one: Approval) -> tuple[str, str]:
    """Who decided an approval, and why; two empty texts if it was not decided by a vote."""
    from perdure.cli.text.plain import safe
    from perdure.store.moves import approval

    votes = [vote for vote in approval.votes(tx, one.session_uid, one.id) if vote.decision == one.decision]
    reasons = [f"{vote.voter}: {vote.rationale}" if len(votes) > 1 else vote.rationale for vote in votes]
    return ", ".join(safe(vote.voter) for vote in votes), "; ".join(reasons)


def row(tx: StoreTransaction, one: Approval, what: str, *, decided: bool) -> list[str]:
    from perdure.cli.text.plain import TEXT, safe, short, span
    from perdure.store.moves import approval, session

    yes = sum(vote.decision == "approved" for vote in approval.votes(tx, one.session_uid, one.id))
    waiting = f"{yes} of {one.quorum}" if one.quorum > 1 else "waiting"
    expires = "" if one.expires_at is None or one.decision is not None else f"in {span(one.expires_at - tx.now)}"
    voters, why = decided_by(tx, one)
    return [
        safe(one.id), safe(session.get(tx, one.session_uid).id), safe(one.gate), f"{span(tx.now - one.asked_at)} ago",
        one.decision or waiting, *((voters, short(why)) if decided else ()), expires,
        what if len(what) <= TEXT else what[: TEXT - 1] + "…",
    ]  # fmt: skip
