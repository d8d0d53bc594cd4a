"""What a session waits for, in words, and the commands that end each wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click
import msgspec

from perdure.cli.shell import Shell
from perdure.cli.text.plain import CUT, error, intent, safe, short
from perdure.clock import format_time, span
from perdure.config import is_service
from perdure.domain.session import SessionRecord
from perdure.domain.wait import FOR_A_PERSON, Wait, WaitKind, needs_person
from perdure.errors import NotFound
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, effect, quorum, session, wait
from perdure.store.moves.session import START

LIMIT = 20
TEXT = "TEXT"


class Suggestion(msgspec.Struct, frozen=True):
    """A command to type, and what it does."""

    words: tuple[str, ...]
    meaning: str = ""
    app: bool = False


class WaitDescription(msgspec.Struct, frozen=True):
    """A wait, what it is for, and the commands that end it."""

    wait: Wait
    what: str
    commands: tuple[Suggestion, ...] = ()

    @property
    def for_a_person(self) -> bool:
        return self.wait.kind in FOR_A_PERSON


def describe_waits(tx: StoreTransaction, found: SessionRecord, depth: int = 5) -> list[WaitDescription]:
    """What a session and its children wait for now; what a person must do comes first."""
    described: list[WaitDescription] = []
    for one in wait.open_of_session(tx, found.uid):
        described.append(describe_wait(tx, found, one))
        if one.kind == WaitKind.CHILD and one.ref is not None and depth:
            child = session.get(tx, one.ref)
            below = describe_waits(tx, child, depth - 1)
            described += [msgspec.structs.replace(two, what=f"child {child.id}: {two.what}") for two in below]
    return sorted(described, key=lambda one: not one.for_a_person)


def describe_wait(tx: StoreTransaction, found: SessionRecord, one: Wait) -> WaitDescription:
    """A wait in words, with the commands that end it."""
    match one.kind:
        case WaitKind.APPROVAL:
            return _approval(tx, found, one)
        case WaitKind.INPUT:
            return _input(found, one)
        case WaitKind.DOUBT:
            return _doubt(one)
        case WaitKind.EFFECT:
            return _effect(tx, one)
        case WaitKind.CHILD:
            name = session_name(tx, one.ref)
            return WaitDescription(
                one, f"the end of its child {name}", (Suggestion(("show", name), "shows the child"),)
            )
        case WaitKind.LEASE:
            return _lease(found, one)
        case WaitKind.PAUSED:
            return WaitDescription(one, "a person to resume it", (Suggestion(("resume", found.id), app=True),))
        case WaitKind.PROGRAM:
            return _code(found, one)
        case WaitKind.POLICY:
            return _policy(one)
        case WaitKind.BUDGET:
            return _budget(found, one)
        case WaitKind.WORKSPACE:
            return _workspace(found, one)
        case WaitKind.QUARANTINE:
            crashes = _detail(one).get("crashes")
            what = f"a person: {crashes} workers in a row were lost while they ran it, and it made no progress"
            show = Suggestion(("show", found.id, "--last", "20"), "shows what it did last")
            return WaitDescription(one, what, (show, Suggestion(("resume", found.id), "tries again", app=True)))
        case WaitKind.TIMER if one.retry_numbers is not None:
            after = short(error(_detail(one).get("error")))
            now = Suggestion(("retry", found.id), "retries it now", app=True)
            return WaitDescription(one, f"{describe_retry(one, tx.now)}, after {after}", (now,))
    due = f" until {format_time(one.due_at)}" if one.due_at is not None else ""
    why = "it is to start then" if one.kind == WaitKind.TIMER and one.id == START else _detail(one).get("why")
    return WaitDescription(one, f"the time{due}" + (f": {short(str(why))}" if why else ""))


def describe_retry(one: Wait, now: int) -> str:
    """A wait before a retry without a person: `retry 2 of 3 in 40s`."""
    number, most = one.retry_numbers or (0, 0)
    return f"retry {number} of {most} in {span(max(0, (one.due_at or now) - now))}"


def _policy(one: Wait) -> WaitDescription:
    """A session that waits for the policy of the store, or for a process that was started with one."""
    from perdure.runtime.policy.active_policy import FROZEN

    if one.ref is not None:
        why = short(str(_detail(one).get("why")))
        shows = Suggestion(("policy",), "shows the policy")
        thaws = (Suggestion(("policy", "thaw"), "ends the freeze"),) if why.startswith(FROZEN) else ()
        return WaitDescription(one, f"the policy of the store. {why}", (*thaws, shows))
    return WaitDescription(one, "a process that has a policy: run it from code that opens the store with policy=...")


def _budget(found: SessionRecord, one: Wait) -> WaitDescription:
    """A session whose budget is used up. Until the next day, or until a person raises it."""
    until = f" or for {format_time(one.due_at)}" if one.due_at is not None else ""
    lift = ("exemptions", "grant", str(one.ref), "--session", found.id, "--because", "TEXT")
    what = f"a person to raise a budget{until}. {short(str(_detail(one).get('why')))}"
    return WaitDescription(one, what, (Suggestion(lift, "lifts it for this session"),))


def _workspace(found: SessionRecord, one: Wait) -> WaitDescription:
    """A session whose files are on another machine."""
    detail = _detail(one)
    place = f"host {safe(str(detail['host']))}" if detail.get("host") else "another machine"
    what = f"a worker on {place}, which has its files in {safe(str(detail.get('folder') or found.repository))}"
    there = Suggestion(("worker",), "on that machine continues it", app=True)
    return WaitDescription(one, what, (there, Suggestion(("export", found.id), "there, and import it here, moves it")))


def _code(found: SessionRecord, one: Wait) -> WaitDescription:
    """A session whose code was not loaded, or that was handed back by code that its records do not fit."""
    program = safe(one.ref or "its program")
    if not one.versions_tried:
        load = Suggestion(("resume", found.id, "--app", "MODULE"), f"loads the module that defines {program}")
        return WaitDescription(one, f"the module that defines {program} is not loaded", (load,))
    tried = ", ".join(sorted(map(safe, one.versions_tried)))
    began = f"began under {safe(found.code_version)}" if found.code_version else "began under a version without a name"
    if (pinned := _detail(one).get("pinned")) is not None:
        what = f"a worker with version {safe(str(pinned))} of {program}, to which it is pinned"
        free = Suggestion(("resume", found.id, "--unpin"), "lets any version run it", app=True)
        return WaitDescription(one, what, (Suggestion(("worker",), "with that version", app=True), free))
    what = f"code of {program} that fits its records: it {began}, and does not fit {tried}"
    run = Suggestion(("worker",), "in a checkout of a version that fits; each other version is tried once", app=True)
    return WaitDescription(one, what, (run, Suggestion(("cancel", found.id), "gives it up")))


def _detail(one: Wait) -> Mapping[str, Any]:
    return one.detail if isinstance(one.detail, Mapping) else {}


def _approval(tx: StoreTransaction, found: SessionRecord, one: Wait) -> WaitDescription:
    detail = _detail(one)
    call = intent(str(detail.get("tool")), detail.get("intent"))
    what = f"the gate {safe(str(detail.get('gate')))} holds back {call}"
    try:
        row = approval.get(tx, found.uid, one.id)
    except NotFound:
        return WaitDescription(one, what)
    yes = sum(vote.decision == "approved" for vote in quorum.votes(tx, found.uid, one.id))
    more = [f"{yes} of {row.quorum} votes"] if row.quorum > 1 else []
    more += [] if row.requester_may_decide else [f"not by {safe(row.requester)}, who requested it"]
    more += [] if row.expires_at is None else [f"expires in {span(row.expires_at - tx.now)}"]
    reason = ("--because", TEXT) if approval.needs_reason(tx, row) else ()
    commands = tuple(Suggestion((word, one.id, *reason)) for word in ("approve", "deny"))
    if CUT in what:
        commands = (Suggestion(("approvals", one.id), "shows the whole call"), *commands)
    return WaitDescription(one, what + (f" ({'; '.join(more)})" if more else ""), commands)


def _input(found: SessionRecord, one: Wait) -> WaitDescription:
    detail = _detail(one)
    question, choices = detail.get("question"), detail.get("choices")
    if question is None:
        why, send = detail.get("why"), Suggestion(("send", found.id, TEXT))
        return WaitDescription(one, f"a message. {short(str(why))}" if why else "a message", (send,))
    what = short(str(question))
    answers = [safe(str(choice)) for choice in choices[:LIMIT]] if isinstance(choices, list) else [TEXT]
    ends = ((*(("--",) if answer.startswith("-") else ()), answer) for answer in answers)
    return WaitDescription(one, what, tuple(Suggestion(("answer", one.id, *end)) for end in ends))


def _doubt(one: Wait) -> WaitDescription:
    detail = _detail(one)
    call = intent(str(detail.get("tool")), detail.get("intent"))
    what = f"the outcome of {call} is unknown. {short(str(detail.get('why')))}"
    return WaitDescription(one, what, settle_suggestions(one.ref or "", str(detail.get("tool"))))


def settle_suggestions(effect_id: str, tool: str) -> tuple[Suggestion, ...]:
    """The three verdicts that a person can give on an effect in doubt."""
    from perdure.runtime.definitions.tool import TOOLS

    returns_nothing = tool in TOOLS and TOOLS[tool].signature.allows_none()
    result, which = ((), "") if returns_nothing else (("--result", "JSON"), "; JSON is what the tool would return")
    which += "" if tool in TOOLS or returns_nothing else ", null for nothing"
    settle, because = ("settle", effect_id), ("--because", TEXT)
    return (
        Suggestion((*settle, "--happened", *because, *result), f"it was done{which}", app=True),  # the tool checks it
        Suggestion((*settle, "--absent", *because), "it was not done; the session does it again"),
        Suggestion((*settle, "--abandon", *because), "the outcome stays unknown; the program gets an error"),
    )


def _effect(tx: StoreTransaction, one: Wait) -> WaitDescription:
    try:
        found = effect.find(tx, one.ref or "")
    except NotFound:
        return WaitDescription(one, f"the outcome of {safe(one.ref or 'an effect')}, which is not in this store")
    owner = session_name(tx, found.session_uid)
    what = f"the outcome of {found.tool} {found.id} of session {owner}"
    return WaitDescription(one, what, (Suggestion(("show", owner)),))


def _lease(found: SessionRecord, one: Wait) -> WaitDescription:
    """Who holds what it needs, and which command shows more."""
    detail = _detail(one)
    holder, name = safe(str(detail.get("holder"))), safe(one.ref or "")
    if detail.get("effect") is None:
        return WaitDescription(one, f"{name}, which {holder} holds")
    what = f"{name}, which session {holder} holds until its effect {safe(str(detail['effect']))} is settled"
    later = Suggestion(("resume", found.id), "when it is free", app=True)
    return WaitDescription(one, what, (Suggestion(("show", holder)), later))


def root_session(tx: StoreTransaction, uid: str) -> SessionRecord:
    """The session to resume: a child is resumed with its parent."""
    found = session.get(tx, uid)
    while found.parent_uid is not None:
        found = session.get(tx, found.parent_uid)
    return found


def resume_line(shell: Shell, found: SessionRecord) -> str:
    """The command that resumes a session. It names the module of the program if nothing else does."""
    from perdure.cli.program_arguments import OWN  # late: most commands do without the agent
    from perdure.runtime.definitions.program import PROGRAMS

    words = ["resume", found.id]
    is_known = found.program in OWN | PROGRAMS.keys() or shell.app or shell.settings.get("app")
    if not is_known and not is_service(shell.store):
        words += ["--app", "MODULE"]
    return shell.suggest(*words, app=True)


def continue_line(shell: Shell, found: SessionRecord) -> str:
    """How a session continues after a person has acted."""
    return f"Run `{resume_line(shell, found)}` to continue, unless a worker is running."


def session_name(tx: StoreTransaction, uid: str | None) -> str:
    try:
        return session.get(tx, uid or "").id
    except NotFound:
        return safe(uid or "?")


def wait_lines(shell: Shell, described: list[WaitDescription], now: int) -> Iterator[str]:
    """Each wait on a line, and below it the commands to type."""
    for one in described[:LIMIT]:
        waited = span(now - one.wait.since)
        when = f"since {waited}" if one.wait.kind == WaitKind.PROGRAM else f"asked {waited} ago"
        yield f"  {click.style(one.wait.kind, bold=True)}, {when}: {one.what}"
        typed = [(shell.suggest(*command.words, app=command.app), command.meaning) for command in one.commands]
        widest = max((len(text) for text, meaning in typed if meaning), default=0)
        for text, meaning in typed:
            yield f"    {text.ljust(widest)}  {meaning}".rstrip()
    if len(described) > LIMIT:
        yield f"  and {len(described) - LIMIT} more; --json shows all"


def summarize_waits(tx: StoreTransaction, waits: list[Wait]) -> tuple[str, int | None, bool]:
    """For a list: what a session waits for in a few words, since when, and whether it needs a person."""
    open_ = sorted(
        waits, key=lambda one: (not needs_person(one.kind, one.ref, one.detail), one.kind not in FOR_A_PERSON)
    )
    if not open_:
        return "", None, False
    first = open_[0]
    detail = _detail(first)
    about = detail.get("question") or detail.get("tool") or first.ref or detail.get("why") or ""
    if first.retry_numbers is not None:
        return describe_retry(first, tx.now), first.since, False
    if first.kind == WaitKind.TIMER and first.due_at is not None:
        about = f"{span(first.due_at - tx.now)} more"
    elif first.kind == WaitKind.CHILD:
        about = session_name(tx, first.ref)
    elif first.kind == WaitKind.LEASE:
        about = f"{first.ref}, held by {detail.get('holder')}"
    if first.versions_tried:
        about = f"{first.ref}, not of version {', '.join(sorted(first.versions_tried))}"
    text = f"{first.kind}: {short(str(about))}" if about else str(first.kind)
    more = f" (+{len(open_) - 1})" if len(open_) > 1 else ""
    return text + more, first.since, needs_person(first.kind, first.ref, first.detail)
