"""Targets of effects are rows, written with the effect however it is planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.domain.effect import AttemptOutcome, Effect
from perdure.domain.session import Status
from perdure.errors import ConfigError
from perdure.ids import digest, encode
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect, session_end, session_removal
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from perdure.testing.postgres import PostgresServer
from tests.store.support import schemas
from tests.store.support.sessions import a_holder, a_session, plain, raw, rows, run_raw, session_of

DISPATCH = Dispatch(worker="w", process="{}")


def an_intent(name: str, *targets: str, **columns: Any) -> NewEffect:
    given: dict[str, Any] = {
        "id": f"e-{name}", "position": encode([0, "", "do", name]), "generation": 0, "tool": "t", "replay": "probe",
        "targets": encode(targets), "intent": "{}", "intent_digest": digest(name),
        "idempotency_key": digest("k" + name),
    }  # fmt: skip
    return NewEffect(**given | columns)


def found(store: Store, target: str, **filters: Any) -> list[str]:
    return [one.id for one in store.read_now(effect.listing, target=target, **filters)]


def test_every_way_of_planning_writes_the_targets(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(effect.plan(holder, an_intent("planned", "branch:main")))
    store.write_now(effect.plan_and_dispatch(holder, an_intent("hot", "branch:main"), DISPATCH))
    known = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result="1")
    store.write_now(effect.record(holder, an_intent("pure", "branch:main", replay="pure"), DISPATCH, known))
    assert set(found(store, "branch:main")) == {"e-planned", "e-hot", "e-pure"}


def test_a_prefix_finds_targets_by_their_bytes(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    names = ("path:deploy/a", "path:deploy/É", "path:Deploy/a", "path:deploy", "path:deploy-b")
    for number, name in enumerate(names):
        clock.advance(seconds=1)
        store.write_now(effect.plan_and_dispatch(holder, an_intent(str(number), name), DISPATCH))
    assert found(store, "path:deploy/*") == ["e-1", "e-0"]
    assert found(store, "path:deploy") == ["e-3"]
    assert found(store, "*") == ["e-4", "e-3", "e-2", "e-1", "e-0"]


def test_filters_and_pages_apply_to_a_target(store: Store, clock: ManualClock) -> None:
    holder, other = a_holder(store), a_holder(store)
    for number in range(4):
        clock.advance(seconds=1)
        one = an_intent(str(number), "pr:7", "branch:main", tool=f"tool-{number % 2}")
        store.write_now(effect.plan(holder if number else other, one))
    assert found(store, "pr:7", tool="tool-0") == ["e-2", "e-0"]
    assert found(store, "pr:7", uid=other.uid) == ["e-0"]
    assert found(store, "pr:7", since=clock.now() - 1_500_000) == ["e-3", "e-2"]
    for target in ("pr:7", "pr:*"):
        pages: list[list[Effect]] = []
        before = None
        while page := store.read_now(effect.listing, target=target, before=before, limit=3):
            pages, before = [*pages, page], page[-1]
        assert [[one.id for one in page] for page in pages] == [["e-3", "e-2", "e-1"], ["e-0"]]


def test_pages_divide_effects_of_the_same_moment(store: Store) -> None:
    holder = a_holder(store)
    for number in range(5):
        store.write_now(effect.plan(holder, an_intent(str(number), "pr:7")))
    first = store.read_now(effect.listing, target="pr:7", limit=2)
    rest = store.read_now(effect.listing, target="pr:7", before=first[-1], limit=9)
    assert [one.id for one in (*first, *rest)] == ["e-4", "e-3", "e-2", "e-1", "e-0"]


@pytest.mark.parametrize("targets", ["[1,null,{}]", '"branch:main"', '["nul \\u0000"]', '["x","x"]'])
def test_strange_targets_do_not_prevent_an_effect(store: Store, targets: str) -> None:
    holder = a_holder(store)
    store.write_now(
        effect.plan_and_dispatch(holder, an_intent("a", targets=targets), DISPATCH)
    ) if targets != "[" else None
    assert len(rows(store, "effect_target")) <= 1


def test_a_long_target_is_found_by_its_beginning(store: Store) -> None:
    holder, long = a_holder(store), "path:" + "é" * 5000
    store.write_now(effect.plan_and_dispatch(holder, an_intent("a", long), DISPATCH))
    assert found(store, long) == found(store, "path:é*") == ["e-a"]


@pytest.mark.parametrize("name", ["", " ", "a\0b"])
def test_an_impossible_target_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        found(store, name)
    assert refused.value.code


def test_targets_cannot_be_changed_or_deleted_alone(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(effect.plan_and_dispatch(holder, an_intent("a", "branch:main"), DISPATCH))
    for statement in ("delete from effect_target", "update effect_target set target = 'branch:other'"):
        with pytest.raises(Exception, match="on record"):
            raw(store, statement)
    assert found(store, "branch:main") == ["e-a"]


@pytest.mark.databases("files")
def test_targets_are_there_after_opening_again(store: Store, target: str, clock: ManualClock) -> None:
    store.write_now(effect.plan_and_dispatch(a_holder(store), an_intent("a", "branch:main"), DISPATCH))
    store.close()
    with open_store(target, clock=clock) as again:
        assert found(again, "branch:main") == ["e-a"]


@pytest.mark.databases("sqlite", "postgres")
def test_effects_of_an_older_store_get_their_targets(request: pytest.FixtureRequest, target: str, folder: Path) -> None:
    is_sqlite = schemas.dialect_of(target) == "sqlite"
    server = None if is_sqlite else request.getfixturevalue("postgres_server")
    blank = str(folder / "old.db") if server is None else server.create_database()
    assert server is None or isinstance(server, PostgresServer)
    schemas.migrate_to(blank, None, 11)
    schemas.sessions_in_flight(blank)
    with schemas.a_migrator(blank) as database:
        schemas.write(database, _old_effects())
    schemas.migrate_to(blank, None)
    listed = "select effect_id, target from effect_target order by effect_id, target"
    assert [tuple(row) for row in schemas.ask(blank, listed)] == [("e-a", "branch:main"), ("e-a", "pr:7")]


def _old_effects() -> Any:
    columns = "session_uid, id, position, generation, tool, replay, targets, intent, intent_digest, idempotency_key"

    def run(tx: StoreTransaction) -> None:
        for name, targets in (("e-a", '["pr:7","branch:main"]'), ("e-b", "["), ("e-c", "[]")):
            run_raw(
                tx,
                f"insert into effect ({columns}, state, planned_at, number)"
                f" select uid, '{name}', '[]', 0, 't', 'probe', '{targets}', '{{}}', '{digest(name)}',"
                f" '{digest('k' + name)}', 'planned', 5, 1 from session"
                " order by uid limit 1",
            )

    return plain(run)


def test_a_removed_session_leaves_no_targets(store: Store) -> None:
    holder = a_holder(store, a_session(store).uid)
    intent = an_intent("a", "branch:main")
    store.write_now(effect.plan_and_dispatch(holder, intent, DISPATCH))
    known = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result="1")
    store.write_now(effect.settle(holder.uid, "w", intent.id, 1, known))
    store.write_now(session_end.finish(holder, Status.DONE))
    store.write_now(session_removal.remove(holder.uid, "ada", because="done with it"))
    assert session_of(store, holder.uid).removed_at is not None
    assert rows(store, "effect_target") == []
