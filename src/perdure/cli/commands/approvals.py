"""`perdure approvals`: calls that wait for approval, and decisions about them."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, command
from perdure.cli.store_access import read_logged, read_store
from perdure.cli.text.approvals import approval_json, planned_effect, voters_and_reasons
from perdure.cli.text.grid import grid
from perdure.cli.text.plain import TEXT, count, safe, short, whole_call
from perdure.clock import span
from perdure.domain.approval import Approval
from perdure.domain.approval_summary import asking_rules, consequence, deciders
from perdure.domain.effect import Effect
from perdure.domain.principal import conditions_of
from perdure.ids import encode
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, principal, quorum
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
    if id is not None:
        show_one(shell, id)
        return
    with read_store(shell) as tx:
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


def _read(one: Approval) -> tuple[str | None, str | None]:
    return one.session_uid, one.id


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


def show_one(shell: Shell, id: str) -> None:
    """Show one approval; if the policy asks for it, it is recorded first who looked."""
    with read_logged(shell, "approval", lambda tx: _read(approval.find(tx, id))) as tx:
        one = approval.find(tx, id)
        shell.echo_json(approval_json(shell, tx, one)) if shell.json else shell.echo(*details(shell, tx, one))


def details(shell: Shell, tx: StoreTransaction, one: Approval) -> list[str]:
    """Everything that a person decides about, uncut."""
    from perdure.cli.text.intent import lines_of  # imports rich, which takes longer than the rest of the command

    about, detail = planned_effect(shell, tx, one), approval.detail_of(tx, one)
    voters, why = voters_and_reasons(tx, one)
    votes = quorum.votes(tx, one.session_uid, one.id)
    facts = {
        "approval": one.id, "session": sessions.get(tx, one.session_uid).id, "gate": one.gate,
        "asked by": one.requester, "asked": f"{span(tx.now - one.asked_at)} ago", "votes needed": str(one.quorum),
        "decision": (one.decision and f"{one.decision} by {voters or 'no vote'}{why and ': '}{why}") or "waiting",
        "votes": ", ".join(f"{vote.voter} {vote.decision}" for vote in votes),
        "may decide": deciders(one, conditions_of(one), governed=principal.is_governed(tx)),
        "rule": "; ".join(asking_rules(detail)),
        "expires": "" if one.expires_at is None else _time(tx.now, one.expires_at),
        "escalates": "" if one.escalate_at is None else _time(tx.now, one.escalate_at),
        "targets": encode(about.targets) if about.targets else "", "intent digest": one.intent_digest,
        "tool": about.tool,
        "approving": "" if one.decision is not None else _approving(tx, one, about),
    }  # fmt: skip
    facts = {name: text for name, text in facts.items() if text}
    return [
        *(f"{name.ljust(13)}  {safe(text)}" for name, text in facts.items()),
        *map(str, lines_of(about, None, about=detail.get("about"))),
    ]


def _approving(tx: StoreTransaction, one: Approval, about: Effect) -> str:
    return consequence(about.tool, about.replay, missing=one.quorum - quorum.counted(tx, one))


def _time(now: int, at: int) -> str:
    return f"in {span(at - now)}" if at > now else f"{span(now - at)} ago"


def row(tx: StoreTransaction, one: Approval, what: str, *, decided: bool) -> list[str]:
    yes = sum(vote.decision == "approved" for vote in quorum.votes(tx, one.session_uid, one.id))
    waiting = f"{yes} of {one.quorum}" if one.quorum > 1 else "waiting"
    expires = "" if one.expires_at is None or one.decision is not None else f"in {span(one.expires_at - tx.now)}"
    voters, why = voters_and_reasons(tx, one)
    return [
        safe(one.id), safe(sessions.get(tx, one.session_uid).id), safe(one.gate), f"{span(tx.now - one.asked_at)} ago",
        one.decision or waiting, *((voters, short(why)) if decided else ()), expires,
        what if len(what) <= TEXT else what[: TEXT - 1] + "…",
    ]  # fmt: skip
