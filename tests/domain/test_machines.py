"""The state machines: sessions and tasks."""

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain import session, task
from perdure.domain.record import check_move
from perdure.domain.session import TERMINAL, Status
from perdure.domain.task import TaskState
from perdure.errors import IllegalMove

MACHINES: dict[str, dict[Any, frozenset[Any]]] = {"session": session.MOVES, "task": task.MOVES}
BEGINNINGS: dict[str, StrEnum] = {"session": Status.READY, "task": TaskState.OPEN}

each_machine = pytest.mark.parametrize("noun", MACHINES)


@each_machine
def test_the_table_names_every_state(noun: str) -> None:
    moves = MACHINES[noun]
    assert set(moves) == set(type(BEGINNINGS[noun]))
    assert frozenset().union(*moves.values()) <= set(moves)


@each_machine
def test_every_state_can_be_reached(noun: str) -> None:
    moves, reached = MACHINES[noun], {BEGINNINGS[noun]}
    while more := {new for old in reached for new in moves[old]} - reached:
        reached |= more
    assert reached == set(moves)


@each_machine
def test_no_state_leads_to_itself(noun: str) -> None:
    assert [state for state, onward in MACHINES[noun].items() if state in onward] == []


def test_done_failed_and_cancelled_are_the_ends_of_a_session() -> None:
    assert {Status.DONE, Status.FAILED, Status.CANCELLED} == TERMINAL


@given(st.lists(st.sampled_from(list(Status)), max_size=30))
def test_ended_sessions_stay_ended_and_only_a_lease_runs_one(walk: list[Status]) -> None:
    now = Status.READY
    for new in walk:
        if new not in session.MOVES[now]:
            with pytest.raises(IllegalMove, match=f"is {now} cannot become {new}"):
                check_move("session", session.MOVES, now, new)
            continue
        check_move("session", session.MOVES, now, new)
        assert now not in TERMINAL or (now is Status.FAILED and new in (Status.READY, Status.WAITING))  # only a retry
        assert now is Status.READY or new is not Status.RUNNING
        assert now is Status.RUNNING or new not in (Status.DONE, Status.FAILED)
        now = new


@pytest.mark.slow
@given(st.lists(st.sampled_from(list(TaskState)), max_size=30))
def test_a_task_can_always_be_opened_again(walk: list[TaskState]) -> None:
    now = TaskState.OPEN
    for new in walk:
        if new in task.MOVES[now]:
            check_move("task", task.MOVES, now, new)
            now = new
        else:
            with pytest.raises(IllegalMove):
                check_move("task", task.MOVES, now, new)
    assert now is TaskState.OPEN or TaskState.OPEN in task.MOVES[now]


def test_a_refused_move_lists_the_legal_ones() -> None:
    with pytest.raises(IllegalMove, match=r"may become cancelled, ready"):
        check_move("session", session.MOVES, Status.WAITING, Status.RUNNING)
    with pytest.raises(IllegalMove, match="it is final"):
        check_move("session", session.MOVES, Status.DONE, Status.READY)
