"""Steps: recorded once, read in one piece."""

import pytest

from perdure.errors import ConfigError, Conflict
from perdure.store.moves import event, inbox, session, step
from perdure.store.moves.step import NewStep
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder, everything


def a_step(name: str = "read", **more: object) -> NewStep:
    identity = {"restart_number": 0, "scope": "", "name": name, "argument_digest": "0" * 64, "occurrence": 0}
    return NewStep(**({"result": '{"lines":12}'} | identity | more))  # type: ignore[arg-type]


def test_a_result_is_recorded_with_its_event(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    assert store.write_now(step.record(holder, a_step())) == 3
    [recorded] = store.read_now(step.of_session, holder.uid, 0)
    assert (recorded.name, recorded.result, recorded.error, recorded.artifact) == ("read", '{"lines":12}', None, None)
    assert (recorded.number, recorded.at) == (3, clock.now())
    [line] = store.read_now(event.after, holder.uid, 2)
    assert (line.kind, line.body["step"]["name"]) == ("step.recorded", "read")
    assert store.read_now(event.verify, holder.uid).cursor == holder.cursor == 3


def test_a_step_is_recorded_once(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(step.record(holder, a_step()))
    before = everything(store)
    with pytest.raises(Conflict):
        store.write_now(step.record(holder, a_step(result='"other"')))
    assert everything(store) == before
    assert store.write_now(step.record(holder, a_step("write"))) == 4  # the holder's guess was not led astray


@pytest.mark.parametrize("other", [{"name": "b"}, {"scope": "in"}, {"argument_digest": "1" * 64}, {"occurrence": 1}])
def test_a_step_at_another_place_is_another_step(store: Store, other: dict[str, object]) -> None:
    holder = a_holder(store)
    store.write_now(step.record(holder, a_step()))
    store.write_now(step.record(holder, a_step(**({"name": "read"} | other))))  # type: ignore[arg-type]
    assert len(store.read_now(step.of_session, holder.uid, 0)) == 2


def test_errors_and_artifacts_are_outcomes_too(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(step.record(holder, a_step("a", result=None, error='{"code":"boom"}')))
    store.write_now(step.record(holder, a_step("b", result=None, artifact="f" * 64)))
    one, two = store.read_now(step.of_session, holder.uid, 0)
    assert (one.result, one.error, two.result, two.artifact) == (None, '{"code":"boom"}', None, "f" * 64)


@pytest.mark.parametrize("outcome", [{"result": None}, {"error": "1"}, {"artifact": "f" * 64}])
def test_a_step_has_exactly_one_outcome(store: Store, outcome: dict[str, object]) -> None:
    holder = a_holder(store)
    with pytest.raises(ConfigError):
        step.record(holder, a_step(**outcome))  # type: ignore[arg-type]


def test_a_step_of_an_earlier_run_is_refused(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(step.record(holder, a_step()))
    store.write_now(session.restart(holder, {}))
    with pytest.raises(Conflict, match="restarted"):
        store.write_now(step.record(holder, a_step("late")))
    store.write_now(step.record(holder, a_step(restart_number=1)))
    assert [len(store.read_now(step.of_session, holder.uid, restart)) for restart in (0, 1, 2)] == [1, 1, 0]


def test_steps_are_read_in_event_order_up_to_an_event(store: Store) -> None:
    holder = a_holder(store)
    for name in ("z", "a"):
        store.write_now(step.record(holder, a_step(name)))
        store.write_now(inbox.receive(holder.uid, "ada", f"m-{name}", "hello"))
    store.write_now(step.record(holder, a_step("m")))
    assert [(one.name, one.number) for one in store.read_now(step.of_session, holder.uid, 0)] == [
        ("z", 3),
        ("a", 5),
        ("m", 7),
    ]
    assert [one.name for one in store.read_now(step.of_session, holder.uid, 0, through=5)] == ["z", "a"]
