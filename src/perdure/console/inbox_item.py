"""What needs a person: open waits with everything that a decision needs, from the rows of the ledger.

An approval is drawn from its row and the row of its effect. Nothing that an agent wrote elsewhere, however it looks,
becomes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from perdure.console.intent import IntentView, view_of
from perdure.domain.approval import Approval, Vote
from perdure.domain.approval_summary import asking_rules, consequence, deciders
from perdure.domain.caller import Caller, Verb
from perdure.domain.effect import Attempt, Effect
from perdure.domain.event import Event
from perdure.domain.principal import conditions_of, why_not
from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait, WaitKind, needs_person
from perdure.errors import PerdureError
from perdure.server.operation import Context
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, event, principal, quorum, wait, withdrawal
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from perdure.store.moves.attempt import attempts_of
from perdure.store.moves.wait import WaitKey

SHOWN = 100  # on one page
READ = 500  # waits in one query
SEARCHED = 20_000  # waits that one request reads at most
FINDINGS = 20  # of recovery, about one effect
ANSWERS = " It answers: "  # before the answer of a probe, in the sentence of recovery
Whole = Callable[[Effect], Effect]


class RecoveryFinding(msgspec.Struct, frozen=True):
    """What recovery found out about an effect, once: for a probe, when it was asked and what it answered."""

    at: int
    attempt: int | None
    said: str

    @classmethod
    def of(cls, one: Event) -> RecoveryFinding:
        body: dict[str, Any] = one.body if isinstance(one.body, dict) else {}
        evidence: dict[str, Any] = found if isinstance(found := body.get("evidence"), dict) else {}
        why = str(body.get("why") or "its content was erased")
        return cls(evidence.get("asked_at") or one.at, evidence.get("attempt"), why.rpartition(ANSWERS)[2] or why)


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs a person."""

    wait: Wait
    session: SessionRecord
    what: str = ""
    intent: IntentView | None = None
    effect: Effect | None = None
    approval: Approval | None = None
    votes: list[Vote] = []
    attempts: list[Attempt] = []
    findings: list[RecoveryFinding] = []  # of recovery, about an effect in doubt
    barred: str | None = None  # why the caller may not vote
    reason_required: bool = False
    may_remember: bool = False
    may_withdraw: bool = False  # the caller may not decide, but withdraw: a request, or an own vote
    choices: list[str] = []
    rules: list[str] = []  # that asked, with their reasons
    deciders: str = ""
    consequence: str = ""

    @property
    def key(self) -> str:
        """Its place on a page."""
        return f"need-{self.session.uid}-{self.wait.id}"

    @property
    def approving(self) -> int:
        return sum(one.decision == "approved" for one in self.votes)


class InboxPage(NamedTuple):
    """A part of the inbox. `following` is the last wait of a part that is followed by another."""

    waits: list[tuple[Wait, SessionRecord]]
    following: WaitKey | None = None
    is_whole: bool = True  # the part is full, or there are no more; otherwise the reading stopped at its limit


def page(tx: StoreTransaction, caller: Caller, after: WaitKey) -> InboxPage:
    """What needs a person in the sessions that the caller may see, after one wait; the longest wait first."""
    kept: list[tuple[Wait, SessionRecord]] = []
    last, read = after, 0
    while found := wait.for_a_person(tx, after, limit=READ):
        for one in found:
            if one.wait is not None and caller.may(Verb.READ_SESSION, one.place):
                if len(kept) == SHOWN:
                    return InboxPage(kept, last)
                kept.append((one.wait, sessions.get(tx, one.wait.session_uid)))
                last = one.key
        after, read = found[-1].key, read + len(found)
        if read >= SEARCHED:
            return InboxPage(kept, after, is_whole=False)
    return InboxPage(kept)


def items(tx: StoreTransaction, found: InboxPage, caller: Caller, whole: Whole) -> list[InboxItem]:
    """The waits of a part with everything that a decision needs."""
    return [need_of(tx, one, session, caller, whole) for one, session in found.waits]


def of_session(
    tx: StoreTransaction, session: SessionRecord, waits: Iterable[Wait], caller: Caller, whole: Whole
) -> list[InboxItem]:
    """What one session needs."""
    wanted = [one for one in waits if needs_person(one.kind, one.ref, one.detail)]
    return [need_of(tx, one, session, caller, whole) for one in wanted]


def will_show(tx: StoreTransaction, context: Context, needs: Iterable[InboxItem]) -> None:
    """Let the approvals among them be recorded as read."""
    for one in needs:
        if one.approval is not None:
            context.will_show(tx, "approval", one.approval.id, one.session.uid)


def need_of(tx: StoreTransaction, one: Wait, session: SessionRecord, caller: Caller, whole: Whole) -> InboxItem:
    """A wait with what is known about it. What cannot be read leaves the rest readable."""
    detail: dict[str, Any] = one.detail if isinstance(one.detail, dict) else {}
    try:
        if one.kind == WaitKind.APPROVAL:
            return _approval(tx, one, session, caller, detail, whole)
        if one.kind == WaitKind.DOUBT:
            found = effects.get(tx, session.uid, one.ref or "")
            attempts = attempts_of(tx, session.uid, found.id)
            why = str(detail.get("why") or found.doubt or "")
            asked = event.recoveries(tx, session.uid, found.id, limit=FINDINGS)
            return InboxItem(
                wait=one, session=session, what=why, effect=found, intent=_intent(found, whole), attempts=attempts,
                findings=[RecoveryFinding.of(one) for one in asked],
            )  # fmt: skip
    except PerdureError as error:
        return InboxItem(wait=one, session=session, what=error.message)
    choices = detail.get("choices")
    return InboxItem(
        wait=one, session=session, what=_sentence(one, session, detail),
        choices=[str(choice) for choice in choices[:20]] if isinstance(choices, list) else [],
    )  # fmt: skip


def _approval(
    tx: StoreTransaction, one: Wait, session: SessionRecord, caller: Caller, detail: dict[str, Any], whole: Whole
) -> InboxItem:
    row = approval.requested_here(tx, approval.get(tx, session.uid, one.id))
    found = effects.get(tx, session.uid, row.effect_id)
    governed = principal.is_governed(tx)
    voter = principal.voter(tx, caller.identity, caller.name)
    owner = principal.with_name(tx, row.requester) if governed else None
    barred = why_not(voter, row, conditions_of(row), governed=governed, owner_uid=None if owner is None else owner.uid)
    return InboxItem(
        wait=one, session=session, approval=row, effect=found, intent=_intent(found, whole, detail.get("about")),
        votes=quorum.votes(tx, session.uid, row.id), barred=barred,
        may_withdraw=barred is not None and withdrawal.may_withdraw(tx, row, voter),
        rules=asking_rules(detail), deciders=deciders(row, conditions_of(row), governed=governed),
        consequence=consequence(found.tool, found.replay, missing=row.quorum - quorum.counted(tx, row)),
        reason_required=detail.get("reason") == approval.REQUIRED, may_remember=approval.may_remember(tx, row),
    )  # fmt: skip


def _intent(found: Effect, whole: Whole, about: Any = None) -> IntentView:
    try:
        return view_of(whole(found), about)
    except (PerdureError, OSError):
        return view_of(found, about)  # the arguments are an artifact that cannot be read; its digest is shown


def _sentence(one: Wait, session: SessionRecord, detail: dict[str, Any]) -> str:
    match one.kind:
        case WaitKind.INPUT:
            return str(detail.get("question") or detail.get("why") or "It waits for a message.")
        case WaitKind.QUARANTINE:
            return f"{detail.get('crashes')} workers in a row were lost while they ran it, and it made no progress."
        case WaitKind.PAUSED:
            return "It is paused."
        case WaitKind.PROGRAM:
            return f"No worker has code of {one.ref or session.program} that fits its records."
        case WaitKind.POLICY:
            return "It was started under a policy, and its workers have none."
        case WaitKind.WORKSPACE:
            return f"Its files are on another machine: {detail.get('host') or 'unknown'}."
    return str(detail.get("why") or "")
