"""`perdure approvals`: calls that wait for approval, and decisions about them."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, command
from perdure.cli.store_access import read_store
from perdure.cli.text.approvals import approval_json, planned_effect, voters_and_reasons
from perdure.cli.text.grid import grid
from perdure.cli.text.plain import TEXT, count, safe, short, span, whole_call
from perdure.domain.approval import Approval
from perdure.ids import encode
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval
from perdure.store.moves import session as sessions

HEADINGS = ("approval", "session", "gate", "asked", "decision", "expires", "what~")
DECIDED = (*HEADINGS[:5], "by", "because~", *HEADINGS[5:])  # with --all


@command
@click.argument("id", required=False)
@click.option("--all", "everything", is_flag=True, help="Include decided approvals.")
@click.option("--session", metavar="ID", help="Only approvals of this session.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Maximum number to list.")
def approvals(shell: Shell, id: str | None, everything: bool, session: str | None, limit: int) -> None:
    """List pending approvals, the longest wait first.

    With ID, show one approval and its whole call.

    With --all, decided approvals follow, each with who decided it and why. With --json, every approval includes its
    call and all votes.
    """
    with read_store(shell) as tx:
        if id is not None:
            one = approval.find(tx, id)
            shell.echo_json(approval_json(shell, tx, one)) if shell.json else shell.echo(*details(shell, tx, one))
            return
        uid = None if session is None else sessions.find(tx, session).uid
        found = approval.listing(tx, uid=uid, decision=None if everything else "waiting", limit=limit + 1)
        if shell.json:
            for one in found[:limit]:
                shell.echo_json(approval_json(shell, tx, one))
            return
        effects = [planned_effect(shell, tx, one) for one in found[:limit]]
        calls = [whole_call(one.tool, one.intent) for one in effects]
        rows = [row(tx, one, what, decided=everything) for one, what in zip(found, calls, strict=False)]
        first = next((one for one in found if one.decision is None), None)
        reason = ("--because", "TEXT") if first is not None and approval.needs_reason(tx, first) else ()
    if not rows:
        shell.echo("There are no approvals." if everything else "No approval is pending.")
        return
    lines = grid(DECIDED if everything else HEADINGS, rows, width=shell.width)
    shell.echo(*lines)
    _echo_cut_calls(shell, found, calls, lines[1:])
    if len(found) > limit:
        shell.echo("", f"These are the first {limit}. Use --limit to list more.")
    if first is not None:
        shell.echo("", *(f"  {shell.suggest(word, first.id, *reason)}" for word in ("approve", "deny")))


def _echo_cut_calls(shell: Shell, found: list[Approval], calls: list[str], lines: list[str]) -> None:
    cut = [(one, hidden_characters(what, line)) for one, what, line in zip(found, calls, lines, strict=False)]
    if any(number for _, number in cut):
        shell.echo("", *(f"{safe(one.id)}: {count(number, 'character')} not shown" for one, number in cut if number))
        shell.echo(f"`{shell.suggest('approvals', 'ID')}` shows a whole call. Read it before you decide.")


def hidden_characters(what: str, line: str) -> int:
    """How many characters of a call are not in its line of the table."""
    seen = len(what)
    while what[:seen] not in line:
        seen -= 1
    return len(what) - seen


def details(shell: Shell, tx: StoreTransaction, one: Approval) -> list[str]:
    """Everything that a person decides about, uncut."""
    from perdure.cli.text.intent import lines_of  # imports rich, which takes longer than the rest of the command

    about = planned_effect(shell, tx, one)
    voters, why = voters_and_reasons(tx, one)
    facts = {
        "approval": one.id, "session": sessions.get(tx, one.session_uid).id, "gate": one.gate,
        "asked by": one.requester, "asked": f"{span(tx.now - one.asked_at)} ago", "votes needed": str(one.quorum),
        "decision": (one.decision and f"{one.decision} by {voters or 'no vote'}{why and ': '}{why}") or "waiting",
        "targets": encode(about.targets), "intent digest": one.intent_digest, "tool": about.tool,
    }  # fmt: skip
    return [
        *(f"{name.ljust(13)}  {safe(text)}" for name, text in facts.items()),
        *map(str, lines_of(about, None, about=approval.detail_of(tx, one).get("about"))),
    ]


def row(tx: StoreTransaction, one: Approval, what: str, *, decided: bool) -> list[str]:
    yes = sum(vote.decision == "approved" for vote in approval.votes(tx, one.session_uid, one.id))
    waiting = f"{yes} of {one.quorum}" if one.quorum > 1 else "waiting"
    expires = "" if one.expires_at is None or one.decision is not None else f"in {span(one.expires_at - tx.now)}"
    voters, why = voters_and_reasons(tx, one)
    return [
        safe(one.id), safe(sessions.get(tx, one.session_uid).id), safe(one.gate), f"{span(tx.now - one.asked_at)} ago",
        one.decision or waiting, *((voters, short(why)) if decided else ()), expires,
        what if len(what) <= TEXT else what[: TEXT - 1] + "…",
    ]  # fmt: skip
