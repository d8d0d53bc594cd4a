"""What a supervisor does: a pure function (state, event, now) -> (state, actions). Nothing here starts a process.

    child ended    by itself: its restart kind decides. By the supervisor: it has stopped, and is started again if its
                   group restarts
    failed         a restart is counted in its group. Within the budget, the strategy names who restarts with it: those
                   that run are stopped in reverse, then all are started in order, after the backoff
    over budget    the group has failed, which is a failed child of the group above it; above the root, everything is
                   stopped in reverse and the supervisor reports why
    stop           SIGTERM, after the shutdown time SIGKILL. A second request repeats SIGTERM

A permanent process that reported to be ready and ended normally asked for a fresh start: it restarts without delay and
costs no budget. One that was never ready did not work, and counts as a failure whatever its exit code. If it ended with
a `fatal` code before it was ready, the tree stops, because the same command would end in the same way. Later the code
proves nothing: a program may end its worker with any.

The first restart is immediate. Each further restart within the period waits twice as long as the one before, with
jitter, up to `LONGEST`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from perdure.clock import SECOND
from perdure.control.supervisor.specification import ChildSpec, GroupSpec, Restart, Spec, Strategy, groups, processes
from perdure.control.supervisor.state import (
    Action,
    ChildState,
    Exit,
    Kill,
    Phase,
    Ready,
    SignOfLife,
    Standstill,
    Start,
    StopRequest,
    SupervisorEvent,
    Terminate,
    TreeState,
)
from perdure.ids import digest

FIRST, LONGEST = SECOND // 10, 30 * SECOND  # the delay of a second restart, and of any


def decide(state: TreeState, event: SupervisorEvent, now: int) -> tuple[TreeState, list[Action]]:
    """What to do about an event. The state that was given is not changed."""
    turn = DecisionTurn(state, now)
    turn.handle(event)
    turn.stop_marked(state.tree)
    turn.start_due()
    turn.kill_overdue()
    return turn.state, turn.actions


def next_wake(state: TreeState) -> int | None:
    """When to send the next `Tick`, if nothing happens before."""
    times: list[int] = []
    ending = _ending(state.children)
    for spec in processes(state.tree):
        one = state.children[spec.id]
        if one.phase is Phase.WAITING and not state.stopping and one.batch not in ending:
            times.append(one.start_at)
        if one.is_alive and one.kill_at is not None and not one.killed:
            times.append(one.kill_at)
        if one.phase is Phase.RUNNING and spec.watchdog is not None and one.ready and not one.killed:
            times.append(one.heard_at + spec.watchdog)
    return min(times, default=None)


def describe_exit(status: int) -> str:
    return f"exit code {status}" if status >= 0 else f"signal {-status}"


class DecisionTurn:
    """One decision: a copy of the state that changes, and the actions so far."""

    def __init__(self, state: TreeState, now: int) -> None:
        self._tree = state.tree
        self._specs = {one.id: one for one in processes(state.tree)}
        self._children = dict(state.children)
        self._restarts = dict(state.restarts)
        self._batches = state.batches
        self._seed = state.seed
        self._stopping = state.stopping
        self._failure = state.failure
        self._exit_code = state.exit_code
        self._now = now
        self.actions: list[Action] = []

    @property
    def state(self) -> TreeState:
        return TreeState(
            self._tree, self._children, self._restarts, self._batches, self._seed, self._stopping, self._failure,
            self._exit_code,
        )  # fmt: skip

    def handle(self, event: SupervisorEvent) -> None:
        if isinstance(event, StopRequest):
            self._stop_all()
        elif isinstance(event, Standstill):
            for id, one in list(self._children.items()):
                kill_at = None if one.kill_at is None else self._now + self._specs[id].shutdown
                self._change(id, heard_at=self._now, kill_at=kill_at)
        elif isinstance(event, Ready):
            self._change(event.id, ready=True, heard_at=self._now)
        elif isinstance(event, SignOfLife):
            self._change(event.id, heard_at=self._now)
        elif isinstance(event, Exit) and self._children[event.id].is_alive:
            self._ended(self._specs[event.id], event.status)

    def _change(self, id: str, **changes: object) -> None:
        self._children[id] = msgspec.structs.replace(self._children[id], **changes)

    def _stop_all(self) -> None:
        if self._stopping:  # a second request: every process that is stopping is asked again
            stopping = (id for id, one in self._children.items() if one.phase is Phase.STOPPING)
            self.actions += [Terminate(id) for id in stopping]
        self._stopping = True
        for id, one in self._children.items():
            if one.is_alive:
                self._change(id, stop=True, again=False)
            else:
                self._change(id, phase=Phase.ENDED)

    def _ended(self, spec: ChildSpec, status: int) -> None:
        one = self._children[spec.id]
        was_ready, was_stopped, again = one.ready, one.stop, one.again
        self._change(
            spec.id, phase=Phase.ENDED, stop=False, again=False, kill_at=None, killed=False, ready=False,
            last_exit=describe_exit(status),
        )  # fmt: skip
        if was_stopped:
            if again:
                self._change(spec.id, phase=Phase.WAITING)
        elif spec.restart is Restart.TEMPORARY or (spec.restart is Restart.TRANSIENT and status in spec.normal):
            return
        elif status in spec.fatal and not was_ready:
            self._fail_tree(f"{spec.id} ended with {describe_exit(status)}; starting it again cannot help", status)
        elif status in spec.normal and was_ready:
            self._change(spec.id, phase=Phase.WAITING, start_at=self._now, batch=self._next_batch())
        else:
            self._fail(spec, f"{spec.id} ended with {describe_exit(status)}")

    def _fail(self, failed: Spec, why: str) -> None:
        """Restart a child, with those that its group's strategy names, or let its group fail."""
        group = next((one for one in groups(self._tree) if failed in one.children), None)
        if group is None:
            self._fail_tree(why, 1)
            return
        recent = [at for at in self._restarts.get(group.id, ()) if at > self._now - group.period]
        if failed.restart is Restart.TEMPORARY:
            self._restart([failed], None)
        elif len(recent) >= group.restarts:
            within = f"within {group.period // SECOND} s"
            self._fail(group, f"{why}, and {group.id} may restart {group.restarts} times {within}")
        else:
            self._restarts[group.id] = (*recent, self._now)
            self._restart(_affected(group, failed), self._now + self._backoff(len(recent)))

    def _restart(self, affected: Iterable[Spec], start_at: int | None) -> None:
        """Stop what runs of these children and start all of them; with None as their time, only stop them."""
        batch = self._next_batch()
        for child in affected:
            for group in groups(child):
                self._restarts.pop(group.id, None)
            for spec in processes(child):
                one = self._children[spec.id]
                again = start_at is not None and spec.restart is not Restart.TEMPORARY
                self._change(spec.id, start_at=start_at or 0, batch=batch)
                if one.is_alive:
                    self._change(spec.id, stop=True, again=again)
                else:
                    self._change(spec.id, phase=Phase.WAITING if again else Phase.ENDED)

    def _fail_tree(self, why: str, exit_code: int) -> None:
        if not self._stopping:
            self._failure, self._exit_code = why, exit_code
            self._stop_all()

    def _next_batch(self) -> int:
        self._batches += 1
        return self._batches

    def _backoff(self, before: int) -> int:
        """No delay at first, then doubling, between half and all of it by chance."""
        if before == 0:
            return 0
        longest: int = min(LONGEST, FIRST << min(before - 1, 20))
        chance = int(digest(f"{self._seed} {self._batches}")[:8], 16) / 2**32
        return int(longest * (0.5 + chance / 2))

    def stop_marked(self, spec: Spec) -> bool:
        """Ask marked processes to end: in reverse, or together if the group does that. True: none is left."""
        if isinstance(spec, GroupSpec):
            done = True
            for child in reversed(spec.children):
                has_ended = self.stop_marked(child)
                done = done and has_ended
                ends_first = isinstance(child, GroupSpec) and child.ends_first
                if not has_ended and (ends_first or not spec.stops_together):
                    return False
            return done
        one = self._children[spec.id]
        if not (one.is_alive and one.stop):
            return True
        if one.phase is Phase.RUNNING:
            self._change(spec.id, phase=Phase.STOPPING, kill_at=self._now + spec.shutdown)
            self.actions.append(Terminate(spec.id))
        return False

    def start_due(self) -> None:
        """Start what waits, in order; not while something that restarts with it still has to end."""
        ending = _ending(self._children)
        for id, one in list(self._children.items()):
            if one.phase is Phase.WAITING and one.start_at <= self._now and one.batch not in ending:
                self._change(
                    id, phase=Phase.RUNNING, heard_at=self._now, ready=False,
                    restarts=one.restarts + (one.last_exit is not None),
                )  # fmt: skip
                self.actions.append(Start(id))

    def kill_overdue(self) -> None:
        for id, one in list(self._children.items()):
            silent = self._specs[id].watchdog
            is_late = one.kill_at is not None and self._now >= one.kill_at
            is_silent = silent is not None and one.ready and self._now >= one.heard_at + silent
            if one.is_alive and not one.killed and (is_late or is_silent):
                self._change(id, killed=True)
                self.actions.append(Kill(id))


def _ending(children: Mapping[str, ChildState]) -> set[int]:
    """The batches of which a process still has to end."""
    return {one.batch for one in children.values() if one.is_alive and one.stop}


def _affected(group: GroupSpec, failed: Spec) -> tuple[Spec, ...]:
    if group.strategy is Strategy.ONE_FOR_ONE:
        return (failed,)
    if group.strategy is Strategy.ALL_FOR_ONE:
        return group.children
    return group.children[group.children.index(failed) :]
