"""The decisions of a supervisor, without processes: what is started, restarted and stopped, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.clock import SECOND
from perdure.control.supervisor.decision import decide, next_wake
from perdure.control.supervisor.specification import (
    ChildSpec,
    GroupSpec,
    Restart,
    Spec,
    Strategy,
    check_ids,
    processes,
)
from perdure.control.supervisor.state import (
    Action,
    Begin,
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
    Tick,
    TreeState,
    begin,
)
from perdure.errors import ConfigError


def process(
    id: str, restart: Restart = Restart.PERMANENT, shutdown: int = SECOND, watchdog: int | None = None
) -> ChildSpec:
    return ChildSpec(id, (id,), restart, shutdown, watchdog)


def group(*children: Spec, id: str = "root", strategy: Strategy = Strategy.ONE_FOR_ONE, restarts: int = 3) -> GroupSpec:
    return GroupSpec(id, children, strategy, restarts=restarts)


@dataclass
class SimulatedTree:
    """Processes that exist only here. They end when they are killed, and on SIGTERM unless they ignore it."""

    state: TreeState
    now: int = 0
    alive: list[str] = field(default_factory=list)
    log: list[Action] = field(default_factory=list)

    def send(self, event: SupervisorEvent) -> list[Action]:
        self.state, actions = decide(self.state, event, self.now)
        for action in actions:
            if isinstance(action, Start):
                assert action.id not in self.alive  # nothing is started twice
                self.alive.append(action.id)
        self.log += actions
        return actions

    def exit(self, id: str, status: int) -> list[Action]:
        self.alive.remove(id)
        return self.send(Exit(id, status))

    def wait(self) -> list[Action]:
        """Let the time pass until the supervisor wants to be called."""
        wake = next_wake(self.state)
        assert wake is not None
        self.now = max(self.now, wake)
        return self.send(Tick())

    def stop(self, *, ignoring: frozenset[str] = frozenset()) -> list[str]:
        """Stop the tree, and return who ended in which order."""
        order: list[str] = []
        left = self.send(StopRequest())
        for _ in range(1000):
            if self.state.is_over:
                return order
            if not left:
                left = self.wait()
                continue
            action = left.pop(0)
            ends = isinstance(action, Kill) or (isinstance(action, Terminate) and action.id not in ignoring)
            if ends and action.id in self.alive:
                order.append(action.id)
                left += self.exit(action.id, 0)
        raise AssertionError("the tree did not stop")


def run(tree: GroupSpec) -> SimulatedTree:
    simulated = SimulatedTree(begin(tree))
    simulated.send(Begin())
    return simulated


A, B, C = process("a"), process("b"), process("c")


def test_children_start_in_order_and_stop_in_reverse() -> None:
    simulated = run(group(A, group(B, id="inner"), C))
    assert simulated.log == [Start("a"), Start("b"), Start("c")]
    assert simulated.stop() == ["c", "b", "a"]
    assert simulated.state.failure is None


def test_group_that_stops_together_is_asked_at_once() -> None:
    simulated = run(group(A, GroupSpec("inner", (B, C), stops_together=True)))
    assert simulated.send(StopRequest()) == [Terminate("c"), Terminate("b")]
    assert simulated.exit("b", 0) == []
    assert simulated.exit("c", 0) == [Terminate("a")]


def test_group_that_ends_first_has_ended_before_the_others_stop() -> None:
    workers = GroupSpec("workers", (C,), ends_first=True)
    simulated = run(GroupSpec("root", (A, B, workers), stops_together=True))
    assert simulated.send(StopRequest()) == [Terminate("c")]
    assert simulated.exit("c", 0) == [Terminate("b"), Terminate("a")]


@pytest.mark.parametrize(
    ("strategy", "stopped", "started"),
    [
        (Strategy.ONE_FOR_ONE, [], ["b"]),
        (Strategy.ALL_FOR_ONE, ["c", "a"], ["a", "b", "c"]),
        (Strategy.REST_FOR_ONE, ["c"], ["b", "c"]),
    ],
)
def test_strategy_names_who_restarts(strategy: Strategy, stopped: list[str], started: list[str]) -> None:
    simulated = run(group(A, B, C, strategy=strategy))
    simulated.log.clear()
    simulated.exit("b", 1)
    for id in stopped:
        assert simulated.log == [Terminate(id)]
        simulated.log.clear()
        simulated.exit(id, -15)
    assert simulated.log == [Start(id) for id in started]


@pytest.mark.parametrize(
    ("restart", "status", "again"),
    [
        (Restart.PERMANENT, 0, True),
        (Restart.PERMANENT, 1, True),
        (Restart.TRANSIENT, 0, False),
        (Restart.TRANSIENT, -9, True),
        (Restart.TEMPORARY, 1, False),
    ],
)
def test_restart_kind_decides_whether_it_starts_again(restart: Restart, status: int, again: bool) -> None:
    simulated = run(group(process("a", restart)))
    assert bool(simulated.exit("a", status)) == again
    assert simulated.state.is_over is not again


def test_restarts_wait_longer_each_time_and_stop_at_the_budget() -> None:
    simulated = run(group(A, restarts=4))
    delays = []
    for _ in range(4):
        simulated.exit("a", 1)
        before = simulated.now
        if "a" not in simulated.alive:
            simulated.wait()
        delays.append(simulated.now - before)
    assert delays[0] == 0
    assert all(SECOND // 20 <= delay <= SECOND for delay in delays[1:])
    assert delays == sorted(delays)
    assert simulated.exit("a", 1) == []
    assert (simulated.state.is_over, simulated.state.exit_code) == (True, 1)
    assert simulated.state.failure == "a ended with exit code 1, and root may restart 4 times within 60 s"


def test_budget_is_for_a_period_only() -> None:
    simulated = run(group(A, restarts=1))
    for _ in range(5):
        assert simulated.exit("a", 1) == [Start("a")]
        simulated.now += 61 * SECOND


def test_failure_goes_up_when_the_budget_of_a_group_is_used() -> None:
    simulated = run(group(C, group(A, B, id="inner", restarts=1), restarts=1))
    simulated.exit("a", 1)
    simulated.log.clear()
    simulated.exit("a", 1)
    assert simulated.log == [Terminate("b")]  # the whole group restarts, and no child outside of it
    assert simulated.exit("b", 0) == [Start("a"), Start("b")]
    simulated.exit("b", 1)
    assert simulated.exit("b", 1) == [Terminate("a")]  # the root has restarted it once
    assert simulated.exit("a", 0) == [Terminate("c")]
    simulated.exit("c", 0)
    assert simulated.state.is_over
    assert "b ended with exit code 1, and inner may restart 1 times" in (simulated.state.failure or "")


def test_fresh_start_of_a_ready_process_costs_no_budget() -> None:
    simulated = run(group(A, restarts=1))
    for _ in range(20):
        simulated.send(Ready("a"))
        assert simulated.exit("a", 0) == [Start("a")]
    assert simulated.state.restarts == {}
    simulated.exit("a", 0)
    simulated.exit("a", 0)  # it was never ready
    assert simulated.state.failure is not None


def test_wrong_use_stops_the_tree_at_once() -> None:
    simulated = run(group(A, B))
    assert simulated.exit("b", 2) == [Terminate("a")]
    simulated.exit("a", 0)
    assert (simulated.state.exit_code, simulated.state.failure) == (
        2,
        "b ended with exit code 2; starting it again cannot help",
    )


def test_program_cannot_stop_the_tree_by_the_exit_code_of_its_worker() -> None:
    simulated = run(group(A, B))
    simulated.send(Ready("b"))
    assert simulated.exit("b", 2) == [Start("b")]


def test_process_without_sign_of_life_is_killed_once() -> None:
    simulated = run(group(process("a", watchdog=10 * SECOND)))
    simulated.now += 100 * SECOND
    assert simulated.send(Tick()) == []  # it is still starting
    simulated.send(Ready("a"))
    simulated.now += 9 * SECOND
    simulated.send(SignOfLife("a"))
    simulated.now += 9 * SECOND
    assert simulated.send(Tick()) == []
    assert simulated.wait() == [Kill("a")]
    assert simulated.send(Tick()) == []
    assert simulated.exit("a", -9) == [Start("a")]


def test_standstill_of_the_supervisor_kills_no_process() -> None:
    simulated = run(group(process("a", watchdog=10 * SECOND)))
    simulated.send(Ready("a"))
    simulated.now += 3600 * SECOND  # the machine slept
    assert simulated.send(Standstill()) == []
    simulated.send(StopRequest())
    simulated.now += 3600 * SECOND
    assert simulated.send(Standstill()) == []
    simulated.now += SECOND
    assert simulated.send(Tick()) == [Kill("a")]


def test_supervisor_does_not_wake_while_a_restart_waits_for_another_process() -> None:
    simulated = run(group(process("a", shutdown=60 * SECOND), process("b"), strategy=Strategy.ALL_FOR_ONE))
    simulated.send(Exit("b", 1))  # a was asked to end, and takes its time
    assert next_wake(simulated.state) == simulated.now + 60 * SECOND


def test_second_stop_request_asks_again() -> None:
    simulated = run(group(A))
    assert simulated.send(StopRequest()) == [Terminate("a")]
    assert simulated.send(StopRequest()) == [Terminate("a")]


def test_exit_that_was_reported_already_changes_nothing() -> None:
    simulated = run(group(process("a", Restart.TEMPORARY)))
    simulated.exit("a", 1)
    before = simulated.state
    assert decide(before, Exit("a", 1), 5) == (before, [])


def test_two_children_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two children of the name 'a'"):
        check_ids(group(A, group(A, id="inner")))


@st.composite
def trees(draw: st.DrawFn) -> GroupSpec:
    """Small trees of two levels, with every restart kind and strategy."""
    names = iter(f"p{number}" for number in range(100))

    def some_process() -> ChildSpec:
        return process(next(names), draw(st.sampled_from(Restart)), shutdown=5 * SECOND)

    def some_group(id: str, inner: tuple[Spec, ...] = ()) -> GroupSpec:
        children = tuple(some_process() for _ in range(draw(st.integers(1, 3)))) + inner
        return GroupSpec(
            id, children, draw(st.sampled_from(Strategy)), draw(st.integers(0, 3)), stops_together=draw(st.booleans())
        )

    return some_group("root", tuple(some_group(f"g{number}") for number in range(draw(st.integers(0, 2)))))


@given(trees(), st.data())
def test_any_history_stays_within_the_budget_and_can_be_stopped(tree: GroupSpec, data: st.DataObject) -> None:
    simulated = run(tree)
    started = [one.id for one in simulated.log]
    assert started == [one.id for one in processes(tree)]
    for choice, status in data.draw(
        st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0, 1, 2, -9])), max_size=20)
    ):
        if choice < len(simulated.alive):
            simulated.exit(simulated.alive[choice], status)
        elif next_wake(simulated.state) is not None:
            for killed in [action.id for action in simulated.wait() if isinstance(action, Kill)]:
                simulated.exit(killed, -9)
        for id, times in simulated.state.restarts.items():
            budget = next(one.restarts for one in [tree, *tree.children] if one.id == id and isinstance(one, GroupSpec))
            assert len([at for at in times if at > simulated.now - 60 * SECOND]) <= budget
        running = {id for id, one in simulated.state.children.items() if one.is_alive}
        assert running == set(simulated.alive)
    ignoring = frozenset(data.draw(st.sets(st.sampled_from(started))))
    simulated.stop(ignoring=ignoring)
    assert simulated.alive == []
    assert {one.phase for one in simulated.state.children.values()} == {Phase.ENDED}


@given(st.integers(0, 4), st.integers(0, 4))
def test_process_that_always_fails_is_started_a_bounded_number_of_times(inner: int, outer: int) -> None:
    simulated = run(group(group(A, id="inner", restarts=inner), restarts=outer))
    while not simulated.state.is_over:
        if "a" in simulated.alive:
            simulated.exit("a", 1)
        else:
            simulated.wait()
    assert len(simulated.log) == (inner + 1) * (outer + 1)
