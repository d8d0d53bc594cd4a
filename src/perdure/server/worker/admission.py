"""What a worker may move: checked in the transaction of the move, against the rows and not against what it says.

    scope    the session is in a queue or a repository of the token; otherwise it does not exist for the worker
    name     a worker is named after its token, so no token can act under the name of another one's worker
    lease    the nonce in the session's row belongs to a holder of that name; nonce and epoch are compared by the move

Each move that is no holder move has a rule of its own here. A move without a rule cannot be in the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perdure.clock import SECOND
from perdure.control.worker_protocol import moves
from perdure.domain.caller import Caller, Verb
from perdure.domain.effect import Replay
from perdure.domain.lease import Holder
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, Conflict, NotAllowed, NotFound
from perdure.runtime.policy.recorded_calls import MODEL
from perdure.server.worker import facts, uploads, wait_end
from perdure.server.worker.contents import named_bytes
from perdure.server.worker.refusal import Refusal
from perdure.server.worker.tag import tag_of
from perdure.store.move import StoreTransaction
from perdure.store.moves import artifact, wait
from perdure.store.moves.attempt import attempts_of

LONGEST_LEASE = 3600 * SECOND
DIGEST = re.compile(r"[0-9a-f]{64}")
DEEPEST = 100  # parents of parents


class WorkerAdmission:
    """Decides about the moves of one caller in one transaction."""

    def __init__(self, caller: Caller, tx: StoreTransaction, folder: Path | None) -> None:
        self.caller = caller
        self.tx = tx
        self.folder = folder  # of the artifacts
        self._tag = tag_of(caller)

    def check(self, name: str, args: list[Any], kwargs: Mapping[str, Any]) -> SessionRecord | None:
        """Refuse a move that the worker may not make; returns the session of a holder move."""
        session = self._held(name, args, kwargs) if name in moves.HELD else RULES[name](self, args, kwargs)
        for digest, size in named_bytes([args, list(kwargs.values())]):
            self.need_bytes(digest, size)
        return session

    def session(self, uid: str) -> SessionRecord:
        """A session that the token covers; any other does not exist."""
        row = self.tx.one("session.get", uid=uid)
        found = None if row is None else SessionRecord.from_row(row)
        if found is None or not self.caller.may(Verb.WORK, found):
            raise Refusal(NotFound(f"There is no session {uid!r:.80}."))
        return found

    def sees(self, uid: str) -> bool:
        """Whether the token covers a session."""
        row = self.tx.one("session.get", uid=uid)
        return row is not None and self.caller.may(Verb.WORK, SessionRecord.from_row(row))

    def own(self, name: str | None) -> bool:
        """Whether a holder or a worker is one of this token."""
        return name is not None and name.split("@", 1)[0].endswith(f".{self._tag}")

    def need(self, allowed: bool, why: str) -> None:
        if not allowed:
            raise Refusal(NotAllowed(f"{self.caller.name} may not do this here: {why}."))

    def need_name(self, by: str, *others: str) -> None:
        """The move is made under the name of a worker of this token, or of the principal."""
        self.need(self.own(by) or by in (self.caller.name, *others), f"{by:.80} is no worker of this token")

    def need_ttl(self, ttl: int) -> None:
        self.need(0 < ttl <= LONGEST_LEASE, "a lease lasts at most an hour")

    def need_bytes(self, name: str, size: Any = None) -> None:
        """What a session claims was uploaded with this token, or a session that the token covers has it already."""
        path = None if self.folder is None else self.folder / name[:2] / name
        known = DIGEST.fullmatch(name) is not None and self._has_bytes(name)
        if not known or path is None or not path.is_file() or size not in (None, path.stat().st_size):
            raise Refusal(NotFound(f"Artifact {name:.12} was not uploaded."))

    def _has_bytes(self, name: str) -> bool:
        if uploads.is_known(self.tx, self.caller, name):
            return True
        rows = (self.tx.one("session.get", uid=one.session_uid) for one in artifact.claims(self.tx, name))
        return any(self.caller.may(Verb.WORK, SessionRecord.from_row(row)) for row in rows if row is not None)

    def _held(self, name: str, args: list[Any], kwargs: Mapping[str, Any]) -> SessionRecord:
        holder = args[0]
        if not isinstance(holder, Holder):
            raise Refusal(ConfigError(f"{name} is made by a holder."))
        found = self.session(holder.uid)
        self.need(self.own(holder.name), f"{holder.name:.80} is no worker of this token")
        same = found.lease_nonce in (None, holder.nonce) and found.lease_holder in (None, holder.name)
        self.need(same or found.lease_nonce != holder.nonce, "the lease is another worker's")
        if name == "lease.renew":
            self.need_ttl(args[1])
        elif name == "event.append":
            self.need(args[1] == "note", "other events come with what they tell of")
        elif name == "effect.record":
            self.need(args[1].replay != Replay.JOINT, "a joint effect needs the database itself")
            self.need(not kwargs.get("over"), "what is over is a call of a model")
        elif name == "approval.request":
            shown = {rule for rule, _ in args[2].rules}
            self.need(bool(shown), "people are shown which rules ask")
            self.need(shown.issuperset(args[2].lifts), "a remembered answer lifts what was shown")
        elif name == "message.record_reply":
            self.need(args[1].tool == MODEL, "a reply is of a model")
        elif name == "message.end_turn":
            cut = kwargs.get("cut")
            self.need(cut is None or cut.intent.tool == MODEL, "a reply is of a model")
        elif name == "effect.plan_and_dispatch":
            self.need(args[1].replay != Replay.JOINT, "a joint effect needs the database itself")
            self.need(self.own(args[2].worker), "the attempt names another worker")
        elif name == "effect.dispatch":
            self.need(self.own(args[2].worker), "the attempt names another worker")
        elif name == "record_change.record_with":
            for change in args[2]:
                facts.check_change(self, found, change.kind, change.arguments)
                if change.kind == "artifact.claim":
                    self.need_bytes(str(change.arguments.get("digest")), change.arguments.get("size"))
        return found

    def holds(self, uid: str | None) -> bool:
        """Whether a worker of this token holds a session, or one above it."""
        for _ in range(DEEPEST):
            row = None if uid is None else self.tx.one("session.get", uid=uid)
            if row is None:
                return False
            found = SessionRecord.from_row(row)
            if self.own(found.lease_holder):
                return True
            uid = found.parent_uid
        return False


Rule = Callable[[WorkerAdmission, list[Any], Mapping[str, Any]], SessionRecord | None]


def _fire(on: WorkerAdmission, args: list[Any], _: Mapping[str, Any]) -> None:
    on.session(args[0])
    on.need(args[1] == wait.TIMER, "a timer fires as itself")


def _index(on: WorkerAdmission, args: list[Any], kwargs: Mapping[str, Any]) -> None:
    on.session(args[0])
    name = args[2]
    on.need_name(args[1], *((args[1],) if args[1].startswith("child:") else ()))
    on.need(kwargs["location"] == f"{name[:2]}/{name}", "an artifact is where its digest says")
    on.need_bytes(name, kwargs["size"])


def _claim(on: WorkerAdmission, args: list[Any], _: Mapping[str, Any]) -> None:
    request = args[0]
    on.need(on.own(request.worker), f"{request.worker:.80} is no worker of this token")
    on.need_ttl(request.ttl)
    if not on.caller.may(Verb.WORK):
        queues = request.queues or frozenset[str]()
        outside = sorted(one for one in queues if not on.caller.covers(facts.Place(one)))
        asked = f"{outside[0]:.80}" if outside else "every queue"
        why = f"the token is for {', '.join(on.caller.scopes) or 'nothing':.200}, and {asked} was asked for"
        on.need(bool(queues) and not outside, f"{why}; name its queues with --queues")


def _attempt(on: WorkerAdmission, args: list[Any], _: Mapping[str, Any]) -> None:
    uid, by, id, number = args[:4]
    found = on.session(uid)
    on.need_name(by)
    workers = [one.worker for one in attempts_of(on.tx, uid, id) if one.number == number]
    on.need(on.own(found.lease_holder) or any(map(on.own, workers)), "the attempt is another worker's")


def _below(on: WorkerAdmission, args: list[Any], kwargs: Mapping[str, Any]) -> None:
    """What a worker does with the children of a session that it holds, or with one whose deadline has passed."""
    found = on.session(args[0])
    over = found.deadline_at is not None and found.deadline_at <= on.tx.now
    on.need_name(args[1], *((wait.TIMER,) if over else ()))
    dead = kwargs.get("dead")
    on.need(dead is None or on.own(dead), "whether that worker is dead is not known here")
    on.need(over or on.own(found.lease_holder) or on.holds(found.parent_uid), "its parent is another worker's")


def _deadline(on: WorkerAdmission, args: list[Any], kwargs: Mapping[str, Any]) -> None:
    found = on.session(args[0])
    on.need(found.deadline_at is not None and found.deadline_at <= on.tx.now, "its deadline has not passed")
    on.need(args[1] == wait.TIMER and kwargs.get("dead") is None, "a timer fires as itself")


def _acquire(on: WorkerAdmission, args: list[Any], kwargs: Mapping[str, Any]) -> None:
    on.session(args[0])
    on.need(on.own(args[1]), f"{args[1]:.80} is no worker of this token")
    on.need_ttl(kwargs["ttl"])


def _take_over(on: WorkerAdmission, args: list[Any], kwargs: Mapping[str, Any]) -> None:
    _acquire(on, args, kwargs)
    on.need(on.own(kwargs.get("taken_from")), "whether that worker is dead is not known here")


def _free(on: WorkerAdmission, args: list[Any], kwargs: Mapping[str, Any]) -> None:
    on.session(args[0])
    on.need(on.own(args[1]) and on.own(kwargs["holder"]), "whether that worker is dead is not known here")


def _any(_: WorkerAdmission, __: list[Any], ___: Mapping[str, Any]) -> None:
    """What it changes belongs to no session: limits of requests, and whose turn it is."""


def _create(on: WorkerAdmission, args: list[Any], kwargs: Mapping[str, Any]) -> None:
    new = args[0]
    on.need_name(kwargs["by"])
    on.need(new.parent_uid is not None and new.forked_from is None, "a worker starts children only")
    above = on.session(new.parent_uid)
    there = on.tx.one("session.get_by_id", id=new.id) or on.tx.one("session.get", uid=new.uid or "")
    if there is not None and not on.caller.may(Verb.WORK, SessionRecord.from_row(there)):
        raise Refusal(Conflict(f"Session {new.id} exists already, with another program or other arguments."))
    on.need(on.own(above.lease_holder), "its parent is another worker's")
    same = (new.queue, new.repository, new.repository_id, new.owner)
    of_no_schedule = (new.schedule_uid, new.schedule_start, new.repository_policy) == (None, None, None)
    as_above = (above.queue, above.repository, above.repository_id, above.owner)
    on.need(of_no_schedule and same == as_above, "a child is where its parent is")
    if above.policy_at is not None and not new.under_policy:
        raise Refusal(NotAllowed("A child of a session under a policy is under it too."))


def _register(on: WorkerAdmission, args: list[Any], _: Mapping[str, Any]) -> None:
    row = args[0]
    on.need(on.own(row.id), f"{row.id:.80} is no worker of this token")
    on.need((row.role, row.parent, row.tree) == ("worker", None, None), "it is no plain worker")


def _own_ids(on: WorkerAdmission, args: list[Any], _: Mapping[str, Any]) -> None:
    ids = [args[0]] if isinstance(args[0], str) else args[0]
    on.need(all(map(on.own, ids)), "these are workers of others")


RULES: dict[str, Rule] = {
    "approval.expire": _fire,
    "artifact.index": _index,
    "claim.claim": _claim,
    "doubt.record_end": _attempt,
    "doubt.record_overrun": _attempt,
    "effect.settle": _attempt,
    "interrupt.request": _below,
    "lease.acquire": _acquire,
    "lease.free": _free,
    "lease.take_over": _take_over,
    "rate_limit.block": _any,
    "rate_limit.correct": _any,
    "rate_limit.reserve": _any,
    "schedule.promote": _any,
    "session.create": _create,
    "session_end.cancel": _below,
    "session_end.expire_deadline": _deadline,
    "session_retry.retry": _below,
    "wait.fire": _fire,
    "wait.resolve": wait_end.resolve,
    "worker.forget": _own_ids,
    "worker.heartbeat": _own_ids,
    "worker.register": _register,
    "worker.set_draining": _own_ids,
}
