"""Running a session: take the lease, settle what is in doubt, run the program, and leave it in a named state.

    acquire      or take over from a process found dead; a worker has it from its claim
    recover      every effect that was dispatched and not settled is driven to its end, before the program runs
    run          the program from the top; what is on record is not done again
    leave        finished, parked on what it waits for, or given back

Whatever happens in between, the session is never left running without a live lease: the lease ends by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from perdure.domain.effect import Effect, EffectState
from perdure.domain.lease import Holder
from perdure.domain.session import CRASHES, SessionRecord, Status
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, LeaseLost, ProgramChanged, Suspended
from perdure.runtime.definitions.program import PROGRAMS, Program, get_program
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.deploy.code_fit import hand_back, pinned_elsewhere
from perdure.runtime.deploy.workspace import describe_place, is_elsewhere
from perdure.runtime.description import program_error
from perdure.runtime.function_call import Completion
from perdure.runtime.ledger import leases
from perdure.runtime.ledger.attempt_registry import has_late_outcome, is_acting
from perdure.runtime.ledger.late_outcomes import write_late_outcomes
from perdure.runtime.ledger.ledger import Ledger
from perdure.runtime.recovery.recovery import tool_of
from perdure.runtime.recovery.undo import take_back
from perdure.runtime.run.failure_cause import cause_of
from perdure.runtime.run.interruption import Interrupted
from perdure.runtime.run.records import read_state
from perdure.runtime.run.run import Run
from perdure.runtime.run.session_lease import acquire_shielded, give_back, reacquire
from perdure.runtime.telemetry.spans import run_span
from perdure.store.moves import doubt, session_end, session_retry
from perdure.store.moves import session as sessions

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime

logger = logging.getLogger(__name__)


async def execute(runtime: Runtime, session: SessionRecord, *, only_settle: bool = False) -> None:
    """Run a session here until it finishes or waits, or only recover its effects."""
    holder = await acquire_shielded(runtime, session)
    await run_held(runtime, holder, session.program, only_settle=only_settle)


async def run_held(runtime: Runtime, holder: Holder, program: str, *, only_settle: bool = False) -> None:
    """The same for a session whose lease this process holds, such as a claimed one."""
    logger.info("Session %s (%s): the run begins.", holder.uid, program)
    while True:
        try:
            await _hold(runtime, holder, program, only_settle=only_settle)
            return
        except LeaseLost:
            if (again := await reacquire(runtime, holder)) is None:
                raise
            logger.info("Session %s: the lease was lost and taken again.", holder.uid)
            again.is_claimed = holder.is_claimed
            holder = again


async def _hold(runtime: Runtime, holder: Holder, program: str, *, only_settle: bool) -> None:
    """Run a session under one lease, and leave it."""
    try:
        while await _once(runtime, holder, PROGRAMS.get(program), only_settle=only_settle):
            pass
    except LeaseLost:
        raise
    except (Exception, asyncio.CancelledError):
        unfinished = is_acting(holder.uid) or has_late_outcome(holder.uid)
        if unfinished or not await asyncio.shield(give_back(runtime, holder)):
            runtime.heartbeat.leave(holder)  # it gives it back when that has ended, or the store is there again
        raise
    finally:
        runtime.heartbeat.drop(holder)


async def _once(
    runtime: Runtime, holder: Holder, program: Program[..., Any] | None, *, only_settle: bool = False
) -> bool:
    """One run of the program. True: something changed meanwhile, run it again."""
    state = await runtime.store.read(read_state, holder.uid, program.reader if program else None)
    run = Run(runtime, holder, state.records, is_agent=program is not None and program.reads_messages)
    run.restore = state.restore
    runtime.heartbeat.keep(holder, holder.boot_deadline - runtime.heartbeat.ttl, run.stop)
    with run_span(run, program):
        try:
            if run.session.cancel_requested_at is not None and await _stopped(run):
                return False
            if (move := pinned_elsewhere(run)) is not None:
                return not await run.write(move)
            if held := _held_back(run):
                return await _park_for(run, *held)
            assert program is not None
            ledger = program.ledger(run)
            await ledger.judgement.prepare()
            if not await _recover(run, program, ledger, state.unfinished):
                return await _suspend(run)
            if only_settle:
                await run.write(sessions.release(holder))
                return False
            return await _leave(run, await _program(run, program, ledger))
        except Suspended:
            assert run.stopped is not None
            raise run.stopped from None
        finally:
            for close in run.closing:
                await run.see_through(close())
            if run.needs_leases:
                await leases.wake_waiting(runtime.store, holder.name)


def _held_back(run: Run) -> tuple[WaitKind, str | None] | None:
    """What is missing before this session may run at all."""
    if run.session.crash_count >= CRASHES:
        return WaitKind.QUARANTINE, None
    if run.session.policy_at is not None and not run.runtime.policy.is_given:
        return WaitKind.POLICY, None
    missing = _missing_code(run)
    if missing is not None:
        return WaitKind.PROGRAM, missing
    if is_elsewhere(run.runtime, run.session, is_agent=PROGRAMS[run.session.program].reads_messages):
        return WaitKind.WORKSPACE, run.session.workspace
    return None


def _missing_code(run: Run) -> str | None:
    """The program or tool that must be loaded before this session can run."""
    if run.session.program not in PROGRAMS:
        return run.session.program
    program = PROGRAMS[run.session.program]
    program.prepare(run.records)
    for effect in run.records.effects.values():
        needed = effect.state == EffectState.DISPATCHED or effect.undo_requested_at is not None
        is_left = program.reads_messages and effect.state == EffectState.PLANNED  # an agent does not call it again
        if (needed or is_left) and effect.tool not in TOOLS:
            return effect.tool
    return program.missing(run.session)


async def _park_for(run: Run, kind: WaitKind, ref: str | None) -> bool:
    """Wait for what this process does not have. Nothing else of the session changes, so requests to it stay."""
    detail: dict[str, Any] | None = {"crashes": run.session.crash_count} if kind is WaitKind.QUARANTINE else None
    if kind is WaitKind.WORKSPACE:
        detail = await run.read(describe_place, run.session)
    return not await run.write(session_end.park_for(run.holder, kind, ref=ref, detail=detail))


async def _recover(run: Run, program: Program[..., Any], ledger: Ledger, found: list[Effect]) -> bool:
    """Settle unfinished effects before the program runs again. False: the session must wait first."""
    paid = await write_late_outcomes(run.runtime, run.session.uid, run.holder.name)
    if run.needs_leases:
        await leases.wake_waiting(
            run.store, run.holder.name
        )  # the process that gave a lease back may have died before this
    if paid or run.session.cancel_requested_at is not None:  # effects have changed since the run began
        found = await run.read(doubt.unfinished, run.session.uid)
    run.undos = {one.id for one in found if one.undo_requested_at is not None}
    under_way = {one.id: one for one in found if one.state == EffectState.DISPATCHED or one.id in run.undos}
    left = [one for one in under_way.values() if one.position[0] != "undo" or one.position[1] not in under_way]
    if left:

        async def drive(effect: Effect) -> None:
            with run.active():
                if effect.id in run.undos:
                    await take_back(ledger, tool_of(effect), effect)
                else:
                    await ledger.recovery.recover(tool_of(effect), effect)

        ends = await run.see_through(_all([drive(effect) for effect in left]), unwinds=True)
        for error in ends:
            if isinstance(error, BaseException) and not isinstance(error, Suspended | Interrupted):
                raise error
        if run.stopped is not None:
            raise run.stopped
        if run.unwinding:
            return False
    if left or paid:
        run.records = await run.read(program.reader, run.session.uid)
    try:
        run.honour_requests()
    except Suspended:
        return False
    return True


async def _all(work: list[Coroutine[Any, Any, None]]) -> list[BaseException | None]:
    return await asyncio.gather(*work, return_exceptions=True)


async def _program(run: Run, program: Program[..., Any], ledger: Ledger) -> Completion:
    """Run the program from the top to its end, however it ends: what it raised, or what it returned."""
    ended = Completion()
    interrupted: BaseException | None = None
    try:
        ended = await asyncio.ensure_future(_to_end(program, run, ledger))
    except BaseException as error:
        interrupted = error
    this = asyncio.current_task()
    cancelled = isinstance(interrupted, asyncio.CancelledError) and this is not None and this.cancelling() > 0
    if cancelled:
        run.unwind()
    await run.see_through(run.settle_down())
    if interrupted is not None and (cancelled or isinstance(interrupted, KeyboardInterrupt)):
        raise interrupted
    return ended if interrupted is None else Completion(error=interrupted)


async def _to_end(program: Program[..., Any], run: Run, ledger: Ledger) -> Completion:
    """Whatever the program raises is its end, `SystemExit` too; a task that raised that would end its event loop."""
    try:
        return Completion(value=await program.main(run, ledger))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:
        return Completion(error=error)


async def _leave(run: Run, ended: Completion) -> bool:
    """Leave the session in a named state. True: it could not be left, run it again."""
    if run.stopped is not None:
        is_changed = isinstance(run.stopped, ProgramChanged)
        if is_changed and run.holder.cancel_requested and await _stopped(run):
            return False
        if isinstance(run.stopped, ProgramChanged) and await hand_back(run, run.stopped):
            logger.info("Session %s: its records do not fit this code; it waits for other code.", run.session.uid)
        raise run.stopped
    if run.restart is not None:
        given = await run.runtime.values.put_arguments(run.session.uid, run.holder.name, run.restart)
        await run.write(session_end.restart(run.holder, given))
        return True
    if run.unwinding:
        return await _suspend(run)
    error = ended.error
    program = get_program(run.session.program)
    if error is None:
        try:
            text = program.signature.encode_result(ended.value)
            done = await run.runtime.values.put_result(run.session.uid, run.holder.name, text)
        except ConfigError as unstorable:
            error = unstorable
        else:
            return not await _finish(run, Status.DONE, result=done)
    run.runtime.causes.note(run.session.uid, error)
    failure, cause = program_error(error, program.function), cause_of(error)
    return not await _fail(run, failure | ({"cause": cause} if cause else {}))


async def _suspend(run: Run) -> bool:
    stopping = run.holder.cancel_requested
    if stopping and await _stopped(run):
        return False
    waits = run.blocked_on
    requested = run.interruption.pauses or (not waits and run.holder.pause_requested)
    pausing = not stopping and (run.pausing or requested)
    if not waits and not pausing:
        return True
    move = session_end.park(run.holder, waits, stopping=stopping, pausing=pausing, undos=run.undos)
    parked = await run.write(move)
    if parked:
        logger.info("Session %s: the run has ended, the session waits.", run.session.uid)
    return not parked


async def _stopped(run: Run) -> bool:
    """Whether a request to stop could be honoured: not while an effect may be under way."""
    await run.runtime.requests.cancel_children(run.session.uid, run.holder.name)
    stopped = await run.write(session_end.stop(run.holder))
    if stopped:
        await run.runtime.requests.wake_parent(run.session.uid)
    return stopped


async def _fail(run: Run, error: dict[str, Any]) -> bool:
    """The program raised an error: its session waits for a retry, or has failed."""
    retry = await run.runtime.session_edits.before_own_retry(run.session, error, run.holder.name)
    lines = PROGRAMS[run.session.program].retry_lines(error) if retry else ()
    left = await run.write(session_retry.fail(run.holder, error, retry=retry, lines=lines))
    if left:
        logger.info("Session %s: the run has ended with %s.", run.session.uid, error.get("type"))
        await run.runtime.requests.wake_parent(run.session.uid)
    return left


async def _finish(run: Run, status: Status, *, result: Any = None) -> bool:
    hears = PROGRAMS[run.session.program].reads_messages and status is Status.DONE
    finished = await run.write(session_end.finish(run.holder, status, result=result, hears=hears))
    if finished:
        logger.info("Session %s: the run has ended, the session is %s.", run.session.uid, status)
        await run.runtime.requests.wake_parent(run.session.uid)
    return finished
