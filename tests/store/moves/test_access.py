"""The access log and its retention."""

from __future__ import annotations

import pytest

from perdure.errors import ConfigError
from perdure.store.moves import access, control_log
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_session, raw, rows, session_of


def test_a_read_is_recorded_outside_the_session(store: Store, clock: ManualClock) -> None:
    before = a_session(store)
    move = access.record(identity="os:501", action="export", session_uid=before.uid, subject="s", detail="copy")
    for _ in range(2):  # a move whose commit was ambiguous runs again
        store.write_now(move)
    assert [row[1:] for row in rows(store, "access")] == [(clock.now(), "os:501", "export", before.uid, "s", "copy")]
    assert session_of(store, before.uid) == before


def test_reads_are_forgotten_after_their_time_and_never_changed(store: Store, clock: ManualClock) -> None:
    for number in range(3):
        store.write_now(access.record(identity="os:501", action="artifact", subject=str(number)))
        clock.advance(days=1)
    with pytest.raises(Exception, match="never changes"):
        raw(store, "update access set identity = 'os:502'")
    assert store.write_now(access.forget(clock.now() - 2 * 86_400_000_000, "ada")) == 1
    assert sorted(row[5] for row in rows(store, "access")) == ["1", "2"]
    said = store.read_now(lambda tx: list(control_log.listing(tx, kind="access.forgotten")))
    assert [(one.actor, one.body["reads"]) for one in said] == [("ada", 1)]


def test_a_text_that_cannot_be_stored_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError):
        store.write_now(access.record(identity="os:501", action="export", subject="a\0b"))
    assert rows(store, "access") == []
