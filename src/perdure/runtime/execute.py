"""Running a session: take the lease, settle what is in doubt, run the program, and leave it in a named state.

    acquire      or take over from a process found dead
    recover      every effect that was dispatched and not settled is driven to its end, before the program runs
    run          the program from the top; what is on record is not done again
    leave        finished, parked on what it waits for, or given back

Whatever happens in between, the session is never left running without a live lease: the lease ends by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from perdure.domain.effect import Effect, EffectState
from perdure.domain.lease import Holder
from perdure.domain.session import SessionRecord, Status
from perdure.domain.wait import WaitKind
from perdure.domain.worker import Life
from perdure.errors import ConfigError, LeaseHeld, LeaseLost, PerdureError, ProgramUnknown, Suspended
from perdure.ids import decode, new_uid
from perdure.runtime import records
from perdure.runtime.act import OWED, describe
from perdure.runtime.effect import Ledger, tool_of
from perdure.runtime.program import get_program
from perdure.runtime.run import Run
from perdure.runtime.session import Session
from perdure.runtime.tool import TOOLS
from perdure.store import effect as effects
from perdure.store import lease, leave, wait, worker
from perdure.store import session as sessions

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime


async def execute(runtime: Runtime, session: SessionRecord) -> None:
    """Move a session here until it is finished or waits."""
    holder = await acquire(runtime, session)
    try:
        while await _once(runtime, holder):
            pass
    except LeaseLost:
        raise
    except (Exception, asyncio.CancelledError):
        await asyncio.shield(_give_back(runtime, holder))
        raise
    finally:
        runtime.heart.drop(holder)


async def acquire(runtime: Runtime, session: SessionRecord) -> Holder:
    """Take the lease; from a holder that is known to be dead, before its time is over."""
    nonce, name, asked_at = new_uid(), runtime.worker.name, runtime.store.clock.boot()
    try:
        holder = await runtime.store.write(lease.acquire(session.uid, name, nonce=nonce, ttl=runtime.heart.ttl))
    except LeaseHeld as held:
        who = str(held.details.get("holder") or "")
        known = {one.id: one for one in await runtime.store.read(worker.workers)}
        row = known.get(who.split("@", 1)[0])
        if row is None or runtime.worker.life(row) is not Life.DEAD:
            raise
        because = f"{who} was found dead"
        move = lease.take_over(session.uid, name, nonce=nonce, ttl=runtime.heart.ttl, because=because, taken_from=who)
        holder = await runtime.store.write(move)
    holder.boot_deadline = asked_at + runtime.heart.ttl
    return holder


async def _give_back(runtime: Runtime, holder: Holder) -> None:
    try:
        await runtime.store.write(sessions.release(holder))
    except PerdureError:  # the lease is gone already, or the store is: it ends by itself
        return


async def _once(runtime: Runtime, holder: Holder) -> bool:
    """One run of the program. True: something changed meanwhile, run it again."""
    run = Run(runtime, holder, await runtime.store.read(records.load, holder.uid))
    runtime.heart.keep(holder, holder.boot_deadline - runtime.heart.ttl, run.stop)
    ledger = Ledger(run, runtime.policy)
    try:
        if run.session.cancel_requested_at is not None and await _stopped(run):
            return False
        if missing := _missing_code(run):
            return await _park_for_code(run, missing)
        if not await _recover(run, ledger):
            return await _suspend(run)
        return await _leave(run, *await _program(run, ledger))
    except Suspended:
        assert run.stopped is not None
        raise run.stopped from None


def _missing_code(run: Run) -> str | None:
    """What must be loaded before this session can move."""
    try:
        get_program(run.session.program)
    except ProgramUnknown:
        return run.session.program
    for effect in run.records.effects.values():
        if effect.state == EffectState.DISPATCHED and effect.tool not in TOOLS:
            return effect.tool
    return None


async def _park_for_code(run: Run, missing: str) -> bool:
    id = f"program-{run.session.cursor}"
    await run.write(wait.open_(run.holder, id, WaitKind.PROGRAM, ref=missing))
    return not await run.write(leave.park(run.holder, [id], stopping=True))


async def _recover(run: Run, ledger: Ledger) -> bool:
    """Settle doubts before the program runs again. False: something must be waited for first."""
    paid = await _pay(run)
    unsettled = await run.read(effects.unsettled, run.session.uid)
    under_way = {one.id: one for one in unsettled if one.state == EffectState.DISPATCHED}
    left = [one for one in under_way.values() if one.position[0] != "undo" or one.position[1] not in under_way]
    if left:

        async def drive(effect: Effect) -> None:
            with run.active():
                await ledger.drive(tool_of(effect), effect)

        ends = await run.see_through(_all([drive(effect) for effect in left]))
        for error in ends:
            if isinstance(error, BaseException) and not isinstance(error, Suspended):
                raise error
        if run.stopped is not None:
            raise run.stopped
        if run.unwinding:
            return False
    if left or paid:
        run.records = await run.read(records.load, run.session.uid)
    try:
        run.honour_requests()
    except Suspended:
        return False
    return True


async def _all(work: list[Coroutine[Any, Any, None]]) -> list[BaseException | None]:
    return await asyncio.gather(*work, return_exceptions=True)


async def _pay(run: Run) -> bool:
    """Write down what is known and the store could not take when it came; say whether there was anything."""
    due = [one for one in OWED if one[0] == run.session.uid]
    for uid, id, number in due:
        known, retry = OWED[uid, id, number]
        await run.write(effects.settle(uid, run.holder.name, id, number, known, retry=retry))
        del OWED[uid, id, number]
    return bool(due)


async def _program(run: Run, ledger: Ledger) -> tuple[BaseException | None, Any]:
    """Run the program from the top to its end, however it ends: what it raised, or what it returned."""
    program = get_program(run.session.program)
    given = run.session.restart_arguments if run.session.restart_number else run.session.arguments
    arguments = program.shape.unbind(given)
    handle = Session(run, ledger)

    async def main() -> Any:
        handle._begin()
        return await program.function(handle, **arguments)

    ended: BaseException | None = None
    result: Any = None
    try:
        result = await asyncio.ensure_future(main())
    except BaseException as error:
        ended = error
    this = asyncio.current_task()
    cancelled = isinstance(ended, asyncio.CancelledError) and this is not None and this.cancelling() > 0
    if cancelled:
        run.unwind()
    await run.see_through(run.settle_down())
    if cancelled and ended is not None:
        raise ended
    return ended, result


async def _leave(run: Run, ended: BaseException | None, result: Any) -> bool:
    """Leave the session in a named state. True: it could not be left, run it again."""
    if run.stopped is not None:
        raise run.stopped
    if run.restart is not None:
        await run.write(leave.restart(run.holder, run.restart))
        return True
    if run.unwinding:
        return await _suspend(run)
    if ended is None:
        try:
            done = decode(get_program(run.session.program).shape.encode_result(result))
        except ConfigError as error:
            ended = error
        else:
            return not await _finish(run, Status.DONE, result=done)
    return not await _finish(run, Status.FAILED, error=decode(describe(ended)))


async def _suspend(run: Run) -> bool:
    stopping = run.holder.cancel_requested
    if stopping and await _stopped(run):
        return False
    waits = run.blocked_on
    if run.holder.pause_requested and not waits and not stopping:
        id = f"paused-{run.holder.cursor}"
        await run.write(wait.open_(run.holder, id, WaitKind.PAUSED))
        waits = [id]
    return not waits or not await run.write(leave.park(run.holder, waits, stopping=stopping))


async def _stopped(run: Run) -> bool:
    """Whether a request to stop could be honoured: not while an effect may be under way."""
    error = {"type": "Cancelled", "code": "cancelled", "message": "It was asked to stop."}
    stopped = await run.write(leave.stop(run.holder, error=error))
    if stopped:
        await run.runtime.tell_parent(run.session.uid)
    return stopped


async def _finish(run: Run, status: Status, *, result: Any = None, error: Any = None) -> bool:
    finished = await run.write(leave.finish(run.holder, status, result=result, error=error))
    if finished:
        await run.runtime.tell_parent(run.session.uid)
    return finished
