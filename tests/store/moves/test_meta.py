"""Properties of the store itself."""

import pytest

from perdure.store.moves import meta
from perdure.store.store import Store, open_store


def test_a_store_records_its_id_and_its_schema(store: Store) -> None:
    properties = store.read_now(meta.properties)
    assert len(properties["store_id"]) == 32
    assert (properties["restore_epoch"], int(properties["schema_version"])) == ("0", store.database.schema_version)


def test_a_property_is_set_and_set_again(store: Store) -> None:
    assert store.read_now(meta.get, "colour") is None
    for value in ("red", "green"):
        store.write_now(meta.put("colour", value))
        assert store.read_now(meta.get, "colour") == value
    assert store.read_now(meta.properties)["colour"] == "green"


@pytest.mark.databases("sqlite", "files", "postgres")
def test_a_store_keeps_its_identity_when_it_is_opened_again(target: str) -> None:
    with open_store(target) as first:
        first.write_now(meta.put("colour", "red"))
        before = first.read_now(meta.properties)
    with open_store(target) as second:
        after = second.read_now(meta.properties)
    assert {**before, "barrier": ""} == {**after, "barrier": ""}


@pytest.mark.databases("memory")
def test_memory_keeps_nothing(target: str) -> None:
    with open_store(target) as first:
        first.write_now(meta.put("colour", "red"))
        store_id = first.read_now(meta.get, "store_id")
    with open_store(target) as second:
        assert second.read_now(meta.get, "colour") is None
        assert second.read_now(meta.get, "store_id") != store_id
