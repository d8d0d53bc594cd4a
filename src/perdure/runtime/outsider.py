"""What outsiders may do to a session, without its lease: send, answer, vote, settle, cancel, pause, fork.

Each is one move under the session's row lock, and each may make a waiting session ready.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, TypeVar

from perdure.domain.approval import Approval, Decided
from perdure.domain.effect import Effect, Verdict
from perdure.domain.inbox import InboxMessage, Mode
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ConfigError, Conflict, IllegalMove
from perdure.ids import encode, new_name
from perdure.runtime import leases
from perdure.runtime.fork import tell_branches
from perdure.runtime.looking import Looking, SessionView
from perdure.runtime.policy import Policy
from perdure.runtime.tool import TOOLS
from perdure.runtime.values import kept_as
from perdure.store import approval, artifact, doubt, event, inbox, wait
from perdure.store import effect as effects
from perdure.store import session as sessions
from perdure.store.move import Transaction
from perdure.store.store import Store

Word = TypeVar("Word", bound=StrEnum)


class Outsider(Looking):
    """An open store, and what anybody entitled may do to its sessions. `by` is who does it, unless told otherwise."""

    def __init__(self, store: Store, policy: Policy, by: str) -> None:
        super().__init__(store, policy)
        self.by = by
        self.decided: deque[str] = deque(
            maxlen=1000
        )  # the approvals that were decided here, and not by another process

    async def send(
        self, name: str, text: Any, *, message_id: str | None = None, mode: str = "queue", by: str | None = None
    ) -> InboxMessage:
        """Send a session a message, from any process. The same id again is the same message."""
        session = await self.store.read(sessions.find, name)
        move = inbox.receive(session.uid, by or self.by, message_id or new_name("m"), text, _word(Mode, mode))
        return await self.store.write(move)

    async def answer(self, wait_id: str, answer: Any, *, by: str | None = None) -> Wait:
        """Answer what a session asked."""
        asked = await self.store.read(wait.find, wait_id)
        choices = (asked.detail or {}).get("choices") if isinstance(asked.detail, dict) else None
        if asked.kind != WaitKind.INPUT:
            raise ConfigError(f"{wait_id} waits for {asked.kind}, not for an answer.")
        if asked.ref is None:
            raise ConfigError(f"{wait_id} waits for a message, not for an answer.", hint="Send one: `perdure send`.")
        if choices and answer not in choices:
            raise ConfigError(f"{answer!r} is not one of {', '.join(choices)}.")
        return await self.store.write(wait.resolve(asked.session_uid, by or self.by, asked.id, answer))

    async def approve(self, approval_id: str, *, by: str, because: str) -> Approval:
        """Say yes to exactly what the approval is bound to."""
        return await self._vote(approval_id, Decided.APPROVED, by, because)

    async def deny(self, approval_id: str, *, by: str, because: str) -> Approval:
        """Say no."""
        return await self._vote(approval_id, Decided.DENIED, by, because)

    async def _vote(self, approval_id: str, decision: Decided, by: str, because: str) -> Approval:
        asked = await self.store.read(approval.find, approval_id)
        voted = await self.store.write(approval.vote(asked.session_uid, by, asked.id, decision, because=because))
        self.decided.append(asked.id)
        return voted

    async def settle(
        self, effect_id: str, verdict: str, *, by: str, because: str, reference: str | None = None, result: Any = None
    ) -> Effect:
        """Say what came of an effect in doubt: happened, absent or abandon."""
        word, found = _word(Verdict, verdict), await self.store.read(effects.find, effect_id)
        given = None if result is None else encode(result)
        if word is Verdict.HAPPENED and found.tool in TOOLS:
            shape = TOOLS[found.tool].shape
            if given is None and not shape.allows_none():
                raise ConfigError(f"{found.tool} returns a value; say which.", hint="Give it with --result.")
            shape.decode_result(given or "null")
        move = doubt.pronounce(
            found.session_uid, by, found.id, word, because=because, reference=reference, result=given
        )
        settled = await self.store.write(move)
        await tell_branches(self.store, settled, by)
        if settled.leases:
            await leases.tell(self.store, by)
        return settled

    async def ask_undo(self, effect_id: str, *, by: str, because: str) -> Effect:
        """Ask for an effect that was done to be taken back by whoever runs its session next."""
        found = await self.store.read(effects.find, effect_id)
        if found.tool in TOOLS and TOOLS[found.tool].undoing is None:
            raise ConfigError(f"Tool {found.tool} has no undo.", hint=f"Add @{found.tool}.undo.")
        return await self.store.write(doubt.ask_undo(found.session_uid, by, found.id, because=because))

    async def cancel(self, name: str, *, by: str | None = None) -> SessionView:
        """Ask a session to stop; its children are asked too."""
        view = await self.get(name)
        await self.store.write(sessions.request_cancel(view.uid, by or self.by))
        await self.cancel_children(view.uid, by or self.by)
        return await self.get(view.uid)

    async def cancel_children(self, uid: str, by: str) -> None:
        """Ask the children of a session to stop. Whoever stops the session does it again: we may be killed before it,
        and a child may begin after it. The parent is asked first, so that its program meets no child that was stopped.
        """
        for child in await self.store.read(sessions.children, uid):
            with suppress(IllegalMove):  # it has ended meanwhile
                await self.cancel(child, by=by)

    async def pause(self, name: str, *, by: str | None = None) -> SessionView:
        """Ask a session to pause between acts."""
        view = await self.get(name)
        await self.store.write(sessions.request_pause(view.uid, by or self.by))
        return await self.get(view.uid)

    async def resume(self, name: str, *, by: str | None = None) -> SessionView:
        """Let a paused session go on."""
        view = await self.get(name)
        if view.pause_requested_at is not None or any(one.kind == WaitKind.PAUSED for one in view.waits):
            await self.store.write(wait.resume(view.uid, by or self.by))
        return await self.get(view.uid)

    async def give(self, asked: Wait, answer: Any, by: str) -> None:
        """Resolve a wait; if somebody was faster, it is resolved all the same."""
        with suppress(Conflict):
            await self.store.write(wait.resolve(asked.session_uid, by, asked.id, answer))

    async def fork(
        self, name: str, *, at: int | None = None, id: str | None = None, lines: Sequence[dict[str, Any]] = ()
    ) -> SessionView:
        """Branch a session at one of its events. It inherits what was settled there, and repeats none of it.

        `lines` are what an agent's transcript goes on with there, from the moment that the branch exists.
        """
        parent = await self.store.read(sessions.find, name)
        number = parent.cursor if at is None else at
        restart_number, restart_arguments = await self.store.read(event.restart_at, parent, number)
        new = sessions.NewSession(
            id=id or new_name(f"{parent.id[:180]}.b"),
            program=parent.program,
            arguments=parent.arguments,
            claims=await self._claims(parent.uid, parent.arguments, restart_arguments),
            title=parent.title,
            repository=parent.repository,
            owner=parent.owner,
            forked_from=parent.uid,
            forked_at=number,
            branch=f"{parent.branch}@{number}",
            restart_number=restart_number,
            restart_arguments=restart_arguments,
            lines=tuple(lines),
        )
        made = await self.store.write(sessions.create(new, by=self.by))
        return await self.get(made.id)

    async def _claims(self, uid: str, *arguments: Any) -> tuple[sessions.Claim, ...]:
        names = {kept_as(one) for one in arguments} - {None}
        return await self.store.read(_claims, uid, names) if names else ()


def _claims(tx: Transaction, uid: str, names: set[str | None]) -> tuple[sessions.Claim, ...]:
    """What a branch must claim of what its parent does: the arguments that both begin with."""
    return tuple(sessions.Claim(one.digest, one.size) for one in artifact.of_session(tx, uid) if one.digest in names)


def _word(kind: type[Word], said: str) -> Word:
    if said not in set(kind):
        raise ConfigError(f"{said!r} is not one of {', '.join(kind)}.")
    return kind(said)
