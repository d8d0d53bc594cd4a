"""The history for audits: as long as asked for, sound, and the same recent part whatever its length."""

from perdure.control.verification import verify_sessions
from perdure.evaluation.audit.history import write_history
from perdure.store.store import Store


def test_a_history_is_sound_and_as_long_as_asked(store: Store) -> None:
    made = write_history(store, events=3_000, recent=2_000)
    found = store.read_now(verify_sessions, None, lambda _: None)
    assert (made.events, found.events, found.damaged, found.rows) == (3_000, 3_000, [], [])
    assert set(made.truth) == {
        "access", "approvals", "costs", "doubts", "exemptions", "failed-runs", "incidents", "refused", "repeated",
        "retries", "targets", "verdicts", "waiting",
    }  # fmt: skip
