"""A runtime that can die and be opened again, and an outside world that follows a script."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from perdure import Call, Gate, NotDone, Outcome, Tool, faults, tool
from perdure.domain.effect import Attempt, Effect
from perdure.domain.session import Status
from perdure.errors import StoreUnavailable
from perdure.runtime.definitions.program import Bound
from perdure.runtime.ledger.attempt_registry import LATE
from perdure.runtime.ledger.policy import Intent
from perdure.runtime.queries import SessionView
from perdure.runtime.runtime import Runtime
from perdure.store.moves import effect as effects
from perdure.store.moves import event
from perdure.store.moves import session as sessions
from perdure.store.moves.attempt import attempts_of
from perdure.store.store import open_store
from perdure.testing import ManualClock

LEASE = 15


class World:
    """One store, and the process that runs sessions on it."""

    def __init__(self, target: str, clock: ManualClock) -> None:
        self.target = target
        self.clock = clock
        self.policy: Callable[[Intent], Any] | None = None
        self.rt = self.open()

    def open(self, **options: Any) -> Runtime:
        """Another process, or the same one after its end."""
        store = open_store(self.target, clock=self.clock)
        return Runtime(store, policy=self.policy, lease=LEASE, **options)

    def crash(self) -> Runtime:
        """The process dies, its lease runs out, and another one begins."""
        self.rt.late_outcomes.close()
        LATE.clear()
        faults.disarm()
        self.rt.close()
        self.clock.advance(seconds=LEASE + 1)
        self.rt = self.open()
        return self.rt

    async def run(self, bound: Bound[Any], id: str = "s", **options: Any) -> SessionView:
        started = await self.rt.start(bound, id=id, **options)
        return await self.rt.run(started.id)

    async def again(self, id: str = "s") -> SessionView:
        return await self.rt.run(id)

    async def dies(self, bound: Bound[Any], id: str = "s") -> None:
        """Run a session in a process that dies in the middle."""
        try:
            view = await self.run(bound, id)
        except StoreUnavailable:
            self.crash()
        else:
            raise AssertionError(f"the process lived on: {view.status} {view.error}")

    async def effects(self, id: str = "s") -> list[Effect]:
        uid = (await self.rt.get(id)).uid
        return await self.rt.store.read(effects.of_session, uid)

    async def effect(self, id: str = "s") -> Effect:
        (only,) = await self.effects(id)
        return only

    async def attempts(self, effect: Effect) -> list[Attempt]:
        return await self.rt.store.read(attempts_of, effect.session_uid, effect.id)

    async def outcomes(self, effect: Effect) -> list[str | None]:
        return [attempt.outcome for attempt in await self.attempts(effect)]

    async def kinds(self, id: str = "s") -> list[str]:
        return [line.kind async for line in self.rt.events(id)]

    def verify(self, id: str = "s") -> None:
        """The log is whole, and what it says is what the rows say."""
        uid = self.rt.store.read_now(sessions.get_by_id, id).uid
        self.rt.store.read_now(event.verify, uid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        faults.disarm()
        self.rt.close()


def die() -> None:
    """From now on nothing of this process reaches the store: as far as the record can tell, it is dead."""

    def dead(point: str) -> None:
        if point in ("move.before", "commit.before"):
            raise StoreUnavailable("This process is dead.")

    faults.arm(dead)


class Outside:
    """The outside world. Each attempt meets the next word of the script, and `done` when there is none left:

    done     it happens, and we hear of it
    lost     it happens, and the answer is lost
    raise    it does not happen, and there is no proof of that
    failed   it does not happen, and that is certain
    died     it happens, and our process dies before it can write that down
    died early  our process dies before it happens
    """

    def __init__(self, *script: str) -> None:
        self.script = list(script)
        self.calls: list[Call] = []
        self.happened: list[str] = []
        self.undone: list[Any] = []
        self.probed: list[str] = []
        self.answers: list[Outcome] = []
        self.undo_script: list[str] = []

    @property
    def keys(self) -> list[str]:
        return [call.key for call in self.calls]

    def meet(self, call: Call) -> int:
        self.calls.append(call)
        word = self.script.pop(0) if self.script else "done"
        if word in ("done", "lost", "died"):
            self.happened.append(call.key)
        if word in ("died", "died early"):
            die()
        if word == "failed":
            raise NotDone("the service refused it")
        if word in ("lost", "raise"):
            raise OSError("the line was cut")
        return 7

    def probe(self, call: Call) -> Outcome:
        self.probed.append(call.key)
        if self.answers:
            return self.answers.pop(0)
        return Outcome.happened(7, reference="r-1") if call.key in self.happened else Outcome.absent()

    def undo(self, call: Call, result: Any) -> None:
        word = self.undo_script.pop(0) if self.undo_script else "done"
        if word == "raise":
            raise OSError("the line was cut")
        if word == "failed":
            raise NotDone("it cannot be taken back")
        self.undone.append(result)
        self.happened.clear()
        if word == "died":
            die()

    def tool(
        self, replay: Any = "escalate", *, name: str = "act", probe: bool = False, **options: Any
    ) -> Tool[Any, Any]:
        """A tool that reaches this world."""

        def act(call: Call, n: int) -> int:
            return self.meet(call)

        made: Tool[Any, Any] = tool(name=name, replay=replay, **{"inflight": "30s"} | options)(act)
        if probe or replay == "probe":

            @made.probe
            def probe_it(call: Call, n: int) -> Outcome:
                return self.probe(call)

        if replay == "compensate":

            @made.undo
            def undo_it(call: Call, result: int | None, n: int) -> None:
                self.undo(call, result)

        return made


ENDED = (Status.DONE, Status.FAILED, Status.CANCELLED)
GATE = Gate("merge", expires="1h")
