"""Requests: what may be done to a session without its lease: send, answer, vote, settle, cancel, pause, fork.

Each is one move under the session's row lock, and each may make a waiting session ready.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, Literal, TypeVar

from perdure.domain.approval import Approval, ApprovalDecision
from perdure.domain.effect import Effect, Verdict
from perdure.domain.exemption import PermissionWidth
from perdure.domain.inbox import InboxMessage, InboxMode
from perdure.domain.literals import MessageMode, VerdictWord
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.domain.wait import Wait, WaitKind
from perdure.domain.worker import Liveness
from perdure.errors import ConfigError, Conflict, IllegalMove, PerdureError
from perdure.ids import check_text, encode, new_name, new_uid
from perdure.runtime.calls.message_type import message_body
from perdure.runtime.definitions.prompt import has_files, prompt_content
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.ledger import leases
from perdure.runtime.ledger.policy import Policy
from perdure.runtime.queries import Queries, SessionView, find_in
from perdure.runtime.record_edits import is_agent, reads_messages
from perdure.runtime.run.large_values import Values, kept_as
from perdure.runtime.run.lineage import wake_branches, wake_branches_of_session
from perdure.runtime.start.repository_identity import of_branch
from perdure.runtime.workers.identity import worker_locks
from perdure.store.move import StoreTransaction
from perdure.store.moves import (
    approval,
    artifact,
    doubt,
    event,
    inbox,
    interrupt,
    message,
    session_end,
    session_resume,
    vote,
    wait,
    withdrawal,
    worker,
)
from perdure.store.moves import effect as effects
from perdure.store.moves import schedule as schedules
from perdure.store.moves import session as sessions
from perdure.store.moves.artifact import JSON, ArtifactClaim
from perdure.store.store import Store

Word = TypeVar("Word", bound=StrEnum)


class Requests:
    """What may be done to sessions without their leases. `by` is who does it, unless a call names another."""

    def __init__(self, store: Store, queries: Queries, policy: Policy, values: Values, by: str) -> None:
        self._store = store
        self._queries = queries
        self._policy = policy
        self._values = values
        self._by = by
        self.own_votes: deque[str] = deque(maxlen=1000)  # the approvals that this process voted on

    async def send(
        self, name: str, text: Any, *, message_id: str | None = None, mode: MessageMode = "queue", by: str | None = None
    ) -> InboxMessage:
        """Send a message to a session, from any process. The same id again is the same message."""
        session = await self._store.read(sessions.find, name)
        if not await self._store.read(reads_messages, session):
            raise ConfigError(
                f"Program {session.program} of session {session.id} reads no messages; nothing was sent.",
                hint="Agents read messages, and programs that call `s.receive`. `perdure answer` answers a question.",
            )
        id, how = new_name("m") if message_id is None else message_id, _word(InboxMode, mode)
        if has_files(text) and await self._store.read(is_agent, session):
            body, files = prompt_content(text)
            claims = await asyncio.to_thread(self._values.put_files, files)
            await self._values.claim(session.uid, by or self._by, *claims)
        else:
            body = message_body(text)
        return await self._store.write(inbox.receive(session.uid, by or self._by, id, body, how))

    async def answer(self, wait_id: str, answer: Any, *, session: str | None = None, by: str | None = None) -> Wait:
        """Answer a question; `session` is needed if several sessions have one of this id."""
        asked = await self._store.read(find_in, wait.find, wait_id, session)
        choices = (asked.detail or {}).get("choices") if isinstance(asked.detail, dict) else None
        if asked.kind not in (WaitKind.INPUT, WaitKind.QUARANTINE):
            raise ConfigError(f"{wait_id} waits for {asked.kind}, not for an answer.")
        if asked.kind == WaitKind.INPUT and asked.ref is None:
            raise ConfigError(f"{wait_id} waits for a message, not for an answer.", hint="Send one: `perdure send`.")
        if choices and answer not in choices:
            raise ConfigError(f"{answer!r} is not one of {', '.join(choices)}.")
        return await self._store.write(wait.resolve(asked.session_uid, by or self._by, asked.id, answer))

    async def approve(
        self, approval_id: str, *, session: str | None = None, by: str, because: str | None = None,
        remember: Literal["once", "this", "tool"] = "once",
    ) -> Approval:  # fmt: skip
        """Approve exactly the intent that the approval is bound to.

        With `remember="this"` the same call, with `"tool"` every call of its tool, is also allowed in this session
        without asking again. Only questions of an agent's own policy can be answered so. `session` is needed if several
        sessions have an approval of this id.
        """
        width = _word(PermissionWidth, remember)
        return await self._vote(approval_id, session, ApprovalDecision.APPROVED, by, because, width)

    async def deny(
        self, approval_id: str, *, session: str | None = None, by: str, because: str | None = None
    ) -> Approval:
        """Deny the intent that the approval is bound to. An agent's model is told the reason."""
        return await self._vote(approval_id, session, ApprovalDecision.DENIED, by, because, PermissionWidth.ONCE)

    async def _vote(
        self, id: str, session: str | None, decision: ApprovalDecision, by: str, because: str | None,
        width: PermissionWidth,
    ) -> Approval:  # fmt: skip
        asked = await self._store.read(find_in, approval.find, id, session)
        move = vote.cast(asked.session_uid, by, asked.id, decision, because=because, remember=width)
        voted = await self._store.write(move)
        self.own_votes.append(asked.id)
        return voted

    async def withdraw(self, approval_id: str, *, session: str | None = None, by: str, because: str) -> Approval:
        """Withdraw an approval, or a request for one, before the effect was dispatched; the effect is then refused."""
        asked = await self._store.read(find_in, approval.find, approval_id, session)
        return await self._store.write(withdrawal.withdraw(asked.session_uid, by, asked.id, because=because))

    async def escalate(self, due: approval.DueEscalation) -> None:
        """Ask more people about an approval that waits for long. Repeating it is harmless."""
        await self._store.write(approval.escalate(due.session_uid, wait.TIMER, due.id))

    async def settle(
        self, effect_id: str, verdict: VerdictWord, *, session: str | None = None, by: str, because: str,
        reference: str | None = None, result: Any = None,
    ) -> Effect:  # fmt: skip
        """Settle an effect in doubt: happened, absent or abandon."""
        word, found = _word(Verdict, verdict), await self._store.read(find_in, effects.find, effect_id, session)
        given = None if result is None else encode(result)
        if word is Verdict.HAPPENED and found.tool in TOOLS:
            shape = TOOLS[found.tool].signature
            if given is None and not shape.allows_none():
                raise ConfigError(f"{found.tool} returns a value, and none was given.", hint="Give it with --result.")
            shape.decode_result(given or "null")
        move = doubt.record_verdict(
            found.session_uid, by, found.id, word, because=because, reference=reference, result=given
        )
        settled = await self._store.write(move)
        await wake_branches(self._store, settled, by)
        if settled.leases:
            await leases.wake_waiting(self._store, by)
        view = await self._queries.get(settled.session_uid)
        if view.cancel_requested_at is not None and not view.sealed_at:
            with suppress(IllegalMove):  # it has ended meanwhile
                await self.cancel(view.uid, by=by)  # this effect may have kept the session from ending
        return settled

    async def ask_undo(self, effect_id: str, *, session: str | None = None, by: str, because: str) -> Effect:
        """Request the undo of an acknowledged effect; the next process that runs the session does it."""
        found = await self._store.read(find_in, effects.find, effect_id, session)
        if found.tool in TOOLS and TOOLS[found.tool].undo_tool is None:
            raise ConfigError(f"Tool {found.tool} has no undo.", hint=f"Add @{found.tool}.undo.")
        return await self._store.write(doubt.request_undo(found.session_uid, by, found.id, because=because))

    async def cancel(self, name: str, *, by: str | None = None, now: bool = False) -> SessionView:
        """Ask a session and its children to stop. One that no process runs has ended on return, if it can end.

        With `now`, what is under way is stopped immediately, as by `interrupt`.
        """
        view, actor = await self._queries.get(name), by or self._by
        dead = await self.dead_holder(view)
        ended = await self._store.write(session_end.cancel(view.uid, actor, dead=dead, now=now))
        if not ended and await self.cancel_children(view.uid, actor, now=now):
            with suppress(IllegalMove):  # the process that runs it has ended it meanwhile
                ended = await self._store.write(session_end.cancel(view.uid, actor, dead=dead))
        if ended:
            await self.wake_parent(view.uid)
            await leases.wake_waiting(self._store, actor)  # a refused effect may hold leases of a verdict of absent
        return await self._queries.get(view.uid)

    async def expire_deadline(self, uid: str) -> None:
        """Cancel a session and its children if its deadline has passed. Repeating it is harmless."""
        view = await self._queries.get(uid)
        due = view.deadline_at is not None and view.deadline_at <= self._store.clock.now()
        if not due or view.status in TERMINAL or view.sealed_at is not None or view.cancel_requested_at is not None:
            return
        await self._store.write(session_end.expire_deadline(uid, wait.TIMER))
        with suppress(IllegalMove):  # it has ended
            await self.cancel(uid, by=wait.TIMER)
        await self.wake_parent(uid)
        await leases.wake_waiting(self._store, wait.TIMER)

    async def dead_holder(self, view: SessionView) -> str | None:
        """The holder of a session's lease, if its process is dead."""
        locks = worker_locks(self._store)  # this does not make the process a worker
        if view.lease_holder is None or locks is None:
            return None
        known = {one.id: one for one in await self._store.read(worker.listing)}
        row = known.get(view.lease_holder.split("@", 1)[0])
        return view.lease_holder if row is not None and locks.life(row) is Liveness.DEAD else None

    async def wake_parent(self, uid: str) -> None:
        """Resolve the waits for a finished child, and those of branches for its effects. Repeating it is harmless."""
        child, has_branches, has_next, waiting = await self._store.read(_ended, uid)
        if child.status not in TERMINAL:
            return
        if has_branches:
            await wake_branches_of_session(self._store, uid, self._by)
        if child.schedule_uid is not None and has_next:
            await self._store.write(schedules.promote(child.schedule_uid))
        answer = {"id": child.id, "status": child.status, "result": child.result, "error": child.error}
        large = await self._claims(child.uid, child.result)
        for asked in waiting:
            if asked.kind == WaitKind.CHILD:
                await self._values.claim(asked.session_uid, f"child:{child.id}", *large)
                await self.resolve(asked, answer, f"child:{child.id}")

    async def wake_stale_parents(self) -> None:
        """Wake parents whose child has ended: the process that ran the child may have died before it woke them."""
        for uid in await self._store.read(wait.ended_children):
            with suppress(PerdureError):  # another process was first, or the parent is sealed
                await self.wake_parent(uid)

    async def cancel_children(self, uid: str, by: str, *, now: bool = False) -> bool:
        """Ask the children of a session to stop; returns whether there were any.

        The holder that stops the session does it again: we may be killed first, and a child may start later. The parent
        is asked first, so that its program meets no child that was stopped.
        """
        found = await self._store.read(sessions.children, uid)
        for child in found:
            with suppress(IllegalMove):  # it has ended meanwhile
                await self.cancel(child, by=by, now=now)
        return bool(found)

    async def interrupt(self, name: str, *, by: str | None = None) -> SessionView:
        """Stop what a session does now, wherever it runs: the model's answer, a command, a wait between retries.

        An agent then waits for the next message, a program is paused. The call returns before the session has stopped.
        The children of a program are interrupted too, also those that no process runs. An agent cancels its own.
        """
        view = await self._queries.get(name)
        await self._store.write(interrupt.request(view.uid, by or self._by))
        if not await self._store.read(is_agent, view):
            for child in await self._store.read(sessions.children, view.uid):
                with suppress(IllegalMove):  # it has ended meanwhile
                    await self.interrupt(child, by=by)
        return await self._queries.get(view.uid)

    async def withdraw_interrupt(self, name: str, *, by: str | None = None) -> None:
        """Remove a request to interrupt that was not honoured yet, and a request to pause: the session continues."""
        view = await self._queries.get(name)
        await self._store.write(interrupt.withdraw(view.uid, by or self._by))
        await self.resume(view.uid, by=by)

    async def close_session(self, name: str, *, by: str | None = None) -> SessionView:
        """End an agent's session as done that waits for the next message; its result is the last answer.

        Refused while an effect is unsettled, a message is unread, or it waits for anything else.
        """
        view, actor = await self._queries.get(name), by or self._by
        asked = next((one.id for one in view.waits if session_end.is_message_wait(one)), "")
        result: Any = None
        if asked:  # otherwise the move refuses
            answer = await self._store.read(message.last_answer, view)
            result = await self._values.put_result(view.uid, actor, encode(answer))
        await self._store.write(session_end.close(view.uid, actor, asked, nonce=new_uid(), result=result))
        await self.wake_parent(view.uid)
        return await self._queries.get(view.uid)

    async def rename(self, name: str, title: str, *, by: str | None = None) -> SessionView:
        """Give a session another title; its id stays."""
        if not check_text("The title", title).strip():
            raise ConfigError("The title is empty.", hint="Give a text.")
        while (view := await self._queries.get(name)).title != title:
            with suppress(Conflict):  # it was described by another process meanwhile: read it again
                move = sessions.describe(view.uid, by or self._by, expected=view.version, title=title)
                await self._store.write(move)
        return view

    async def pause(self, name: str, *, by: str | None = None) -> SessionView:
        """Ask a session to pause between acts."""
        view = await self._queries.get(name)
        await self._store.write(sessions.request_pause(view.uid, by or self._by))
        return await self._queries.get(view.uid)

    async def resume(self, name: str, *, by: str | None = None) -> SessionView:
        """Let a session continue that was paused, or that waits because its workers crashed or its code did not fit.

        Its children continue first: if the process is killed in between, a repeated request completes it.
        """
        view, actor = await self._queries.get(name), by or self._by
        for one in view.waits:
            if one.kind == WaitKind.CHILD and one.ref is not None:
                await self.resume(one.ref, by=by)  # an interrupt pauses the children too
        requested = view.interrupt_requested_at is not None
        is_program = requested and not await self._store.read(is_agent, view)
        if session_resume.is_held(view, view.waits, is_program=is_program):
            await self._store.write(session_resume.resume(view.uid, actor, is_program=is_program))
        return await self._queries.get(view.uid)

    async def resolve(self, asked: Wait, answer: Any, by: str) -> None:
        """Resolve a wait; if another process was faster, it is resolved already."""
        with suppress(Conflict):
            await self._store.write(wait.resolve(asked.session_uid, by, asked.id, answer))

    async def fork(
        self, name: str, *, at: int | None = None, id: str | None = None, lines: Sequence[dict[str, Any]] = (),
        by: str | None = None,
    ) -> SessionView:  # fmt: skip
        """Branch a session at one of its events. The branch inherits what was settled there, and repeats none of it.

        `lines` are added to an agent's transcript in the branch, in the same transaction.
        """
        parent = await self._store.read(sessions.find, name)
        number = parent.cursor if at is None else at
        restart_number, restart_arguments = await self._store.read(event.restart_at, parent, number)
        new = sessions.NewSession(
            id=new_name(f"{parent.id[:180]}.b") if id is None else id,
            program=parent.program,
            arguments=parent.arguments,
            claims=await self._claims(parent.uid, parent.arguments, restart_arguments),
            title=parent.title,
            repository=parent.repository,
            repository_id=await asyncio.to_thread(of_branch, parent),
            workspace=parent.workspace,
            code_version=parent.code_version,
            pinned_at=parent.pinned_at,
            owner=parent.owner,
            queue=parent.queue,
            priority=parent.priority,
            under_policy=self._policy.is_given or parent.policy_at is not None,
            forked_from=parent.uid,
            forked_at=number,
            branch=f"{parent.branch}@{number}",
            restart_number=restart_number,
            restart_arguments=restart_arguments,
            lines=tuple(lines),
            model=parent.model,
        )
        made = await self._store.write(sessions.create(new, by=by or self._by))
        return await self._queries.get(made.id)

    async def _claims(self, uid: str, *arguments: Any) -> tuple[ArtifactClaim, ...]:
        names = {kept_as(one) for one in arguments} - {None}
        return await self._store.read(_claims, uid, names) if names else ()


def _ended(tx: StoreTransaction, uid: str) -> tuple[SessionRecord, bool, bool, list[Wait]]:
    """A session, whether it has branches, whether the next of its schedule may begin, and the waits for it."""
    found = sessions.get(tx, uid)
    has_next = found.schedule_uid is not None and schedules.has_next(tx, found.schedule_uid)
    return found, wait.has_branches(tx, uid), has_next, wait.for_ref(tx, uid)


def _claims(tx: StoreTransaction, uid: str, names: set[str | None]) -> tuple[ArtifactClaim, ...]:
    """What a branch must claim of what its parent does: the arguments that both begin with."""
    return tuple(
        ArtifactClaim(one.digest, one.size, JSON) for one in artifact.of_session(tx, uid) if one.digest in names
    )


def _word(kind: type[Word], said: str) -> Word:
    if said not in set(kind):
        raise ConfigError(f"{said!r} is not one of {', '.join(kind)}.")
    return kind(said)
