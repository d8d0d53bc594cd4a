"""Running a session: take the lease, settle what is in doubt, run the program, and leave it in a named state.

    acquire      or take over from a process found dead
    recover      every effect that was dispatched and not settled is driven to its end, before the program runs
    run          the program from the top; what is on record is not done again
    leave        finished, parked on what it waits for, or given back

Whatever happens in between, the session is never left running without a live lease: the lease ends by itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from perdure.domain.effect import Effect, EffectState
from perdure.domain.lease import Holder
from perdure.domain.session import SessionRecord, Status
from perdure.domain.wait import WaitKind
from perdure.domain.worker import Life
from perdure.errors import LeaseHeld, LeaseLost, PerdureError, ProgramChanged, ProgramUnknown, Suspended
from perdure.ids import decode, new_uid
from perdure.runtime import records
from perdure.runtime.act import describe
from perdure.runtime.effect import Ledger, tool_of
from perdure.runtime.program import get_program
from perdure.runtime.run import Run
from perdure.runtime.session import Session
from perdure.runtime.tool import TOOLS
from perdure.store import effect as effects
from perdure.store import lease, wait, worker
from perdure.store import session as sessions

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime


async def execute(runtime: Runtime, session: SessionRecord) -> None:
    """Move a session here until it is finished or waits."""
    holder = await acquire(runtime, session)
    try:
        while await _once(runtime, holder):
            pass
    except asyncio.CancelledError:
        await asyncio.shield(_give_back(runtime, holder))
        raise
    except PerdureError as error:
        if not isinstance(error, LeaseLost):
            await _give_back(runtime, holder)
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
    if missing := _missing_code(run):
        return await _park_for_code(run, missing)
    ended: BaseException | None = None
    result: Any = None
    try:
        await _recover(run, ledger)
        run.honour_requests()
        result = await _program(run, ledger)
    except BaseException as error:
        ended = error
    if isinstance(ended, asyncio.CancelledError) and not run.unwinding:
        run.unwind()
        await run.settle_down()
        raise ended
    await run.settle_down()
    return await _leave(run, ended, result)


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
    await run.write(wait.park(run.holder, [id]))
    return False


async def _recover(run: Run, ledger: Ledger) -> None:
    """Settle doubts before the program runs again."""
    unsettled = await run.store.read(effects.unsettled, run.session.uid)
    left = [one for one in unsettled if one.state == EffectState.DISPATCHED and one.position[2] != "undo"]
    if not left:
        return

    async def drive(effect: Effect) -> None:
        with run.active():
            await ledger.drive(tool_of(effect), effect)

    ends = await asyncio.gather(*(drive(effect) for effect in left), return_exceptions=True)
    for error in ends:
        if isinstance(error, BaseException) and not isinstance(error, Suspended):
            raise error
    if run.unwinding:
        raise Suspended
    run.records = await run.store.read(records.load, run.session.uid)


async def _program(run: Run, ledger: Ledger) -> Any:
    program = get_program(run.session.program)
    given = run.session.restart_arguments if run.session.restart_number else run.session.arguments
    arguments = program.shape.unbind(given)
    handle = Session(run, ledger)

    async def main() -> Any:
        handle._begin()
        return await program.function(handle, **arguments)

    return await asyncio.ensure_future(main())


async def _leave(run: Run, ended: BaseException | None, result: Any) -> bool:
    """Leave the session in a named state."""
    if run.stopped is not None:
        raise run.stopped
    if run.restart is not None:
        arguments = get_program(run.session.program).shape.bind((), run.restart)
        await run.write(sessions.restart(run.holder, arguments))
        return True
    if run.unwinding:
        return await _suspend(run)
    if isinstance(ended, ProgramChanged):
        raise ended
    if ended is None:
        text = get_program(run.session.program).shape.encode_result(result)
        await _finish(run, Status.DONE, result=decode(text))
    else:
        await _finish(run, Status.FAILED, error=decode(describe(ended)))
    return False


async def _suspend(run: Run) -> bool:
    waits = run.blocked_on
    if run.holder.cancel_requested and not await _in_doubt(run):
        await _finish(run, Status.CANCELLED, error={"code": "cancelled", "message": "It was asked to stop."})
        return False
    if run.holder.pause_requested and not waits:
        id = f"paused-{run.holder.cursor}"
        await run.write(wait.open_(run.holder, id, WaitKind.PAUSED))
        waits = [id]
    resolved = await run.write(wait.park(run.holder, waits))
    return bool(resolved)


async def _in_doubt(run: Run) -> bool:
    left = await run.store.read(effects.unsettled, run.session.uid)
    for effect in left:
        if effect.state == EffectState.PLANNED:
            await run.write(effects.refuse(run.holder, effect.id, "cancelled", "The session was cancelled first."))
    return any(effect.state == EffectState.DISPATCHED for effect in left)


async def _finish(run: Run, status: Status, *, result: Any = None, error: Any = None) -> None:
    await run.write(sessions.finish(run.holder, status, result=result, error=error))
    await run.runtime.tell_parent(run.session.uid)
