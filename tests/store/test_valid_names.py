"""Names and texts: what one of the databases could not hold is refused on all of them, in the same words."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from perdure.domain.artifact import Retention
from perdure.domain.lease import Holder
from perdure.domain.wait import WaitKind
from perdure.domain.worker import WorkerRecord
from perdure.errors import ConfigError
from perdure.store.move import Move
from perdure.store.moves import artifact, decision, fact, inbox, lease, meta, session, step, task, wait, worker
from perdure.store.moves.session import NewSession
from perdure.store.moves.step import NewStep
from perdure.store.store import Store, open_store
from tests.store.support.sessions import TTL, a_holder, everything

UNSTORABLE = {"NUL": "a\0b", "lone surrogate": "a\ud800", "reversed pair": "\udc00\ud800"}
NOT_A_NAME = UNSTORABLE | {
    "empty": "",
    "too long": "x" * 201,
    "a space": "a b",
    "a newline": "a\n",
    "a dash first": "-a",
}

NAMES: dict[str, Callable[[Holder, str], Move[Any]]] = {
    "session id": lambda holder, name: session.create(NewSession(id=name, program="p", arguments={}), by="ada"),
    "program": lambda holder, name: session.create(NewSession(id="s", program=name, arguments={}), by="ada"),
    "message id": lambda holder, name: inbox.receive(holder.uid, "ada", name, "hello"),
    "wait id": lambda holder, name: wait.open_(holder, name, WaitKind.INPUT),
    "task id": lambda holder, name: task.add(holder, name, "title"),
    "decision id": lambda holder, name: decision.decide(holder, name, "x", because="y"),
    "fact's scope": lambda holder, name: fact.remember(holder.uid, "ada", name, "k", 1),
    "fact's key": lambda holder, name: fact.remember(holder.uid, "ada", "s", name, 1),
    "nonce": lambda holder, name: lease.take_over(holder.uid, "w", nonce=name, ttl=TTL, because="dead"),
    "resource": lambda holder, name: lease.acquire_named(name, holder="w", nonce="n", ttl=TTL),
    "resource's holder": lambda holder, name: lease.acquire_named("r", holder=name, nonce="n", ttl=TTL),
    "resource's nonce": lambda holder, name: lease.acquire_named("r", holder="w", nonce=name, ttl=TTL),
    "worker": lambda holder, name: worker.register(WorkerRecord(name, "h", "b", 1, "t", 1, 1, [], 0, 0)),
    "property": lambda holder, name: meta.put(name, "value"),
}


def new(**columns: Any) -> Move[Any]:
    return session.create(NewSession(id="s", program="p", arguments={}, **columns), by="ada")


def recorded(**columns: Any) -> NewStep:
    given = {"restart_number": 0, "scope": "", "name": "n", "argument_digest": "d", "occurrence": 0, "result": "1"}
    return NewStep(**(given | columns))  # type: ignore[arg-type]


TEXTS: dict[str, Callable[[Holder, str], Move[Any]]] = {
    "who begins": lambda holder, text: session.create(NewSession(id="s", program="p", arguments={}), by=text),
    "title": lambda holder, text: new(title=text),
    "repository": lambda holder, text: new(repository=text),
    "owner": lambda holder, text: new(owner=text),
    "queue": lambda holder, text: new(queue=text),
    "concurrency key": lambda holder, text: new(concurrency_key=text),
    "branch": lambda holder, text: new(branch=text),
    "described": lambda holder, text: session.describe(holder.uid, by="ada", expected=1, title=text),
    "wait's ref": lambda holder, text: wait.open_(holder, "w", WaitKind.INPUT, ref=text),
    "task": lambda holder, text: task.add(holder, "t", text),
    "task's note": lambda holder, text: task.add(holder, "t", "title", note=text),
    "decision": lambda holder, text: decision.decide(holder, "d", text, because="y"),
    "reason": lambda holder, text: decision.decide(holder, "d", "x", because=text),
    "fact's check": lambda holder, text: fact.remember(holder.uid, "ada", "s", "k", 1, verify=text),
    "step": lambda holder, text: step.record(holder, recorded(name=text)),
    "step's scope": lambda holder, text: step.record(holder, recorded(scope=text)),
    "artifact": lambda holder, text: artifact.index(
        holder.uid, "ada", "f" * 64, kind=text, size=1, location="x", retention=Retention.KEEP
    ),
    "worker's host": lambda holder, text: worker.register(WorkerRecord("w", text, "b", 1, "t", 1, 1, [], 0, 0)),
    "property": lambda holder, text: meta.put("key", text),
}


def refuses(store: Store, make: Callable[[Holder, str], Move[Any]], texts: Iterable[str]) -> None:
    holder = a_holder(store)
    before = everything(store)
    for text in texts:
        with pytest.raises(ConfigError):
            store.write_now(make(holder, text))
    assert everything(store) == before


@pytest.mark.parametrize("make", NAMES.values(), ids=NAMES.keys())
def test_a_name_is_one_that_every_database_can_store(store: Store, make: Callable[[Holder, str], Move[Any]]) -> None:
    refuses(store, make, NOT_A_NAME.values())
    store.write_now(make(a_holder(store), "A.name_of:all@kinds/of+characters-9"[:199]))


@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS.keys())
def test_a_text_is_one_that_every_database_can_store(store: Store, make: Callable[[Holder, str], Move[Any]]) -> None:
    refuses(store, make, UNSTORABLE.values())
    store.write_now(make(a_holder(store), "Fünf 漢字 \U0001f600 \n ' \" % :x {lock} \x01"))


def test_the_actor_has_a_name_that_every_database_can_store(store: Store) -> None:
    refuses(store, lambda holder, name: inbox.receive(holder.uid, name, "m", "hello"), UNSTORABLE.values())


def test_json_may_contain_characters_that_names_may_not(store: Store) -> None:
    body = {"NUL": "a\0b", "quote": "'\"%:x", "emoji": "\U0001f600", "deep": [[[None, True, 1.5, -(2**53)]]]}
    holder = a_holder(store)
    assert store.write_now(inbox.receive(holder.uid, "ada", "m", body)).body == body
    found = store.read_now(inbox.get, holder.uid, "m")
    assert found is not None
    assert found.body == body


@pytest.mark.parametrize("address", ["", "  ", "a\0b", "mysql://x", "http://example.org"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError):
        open_store(address)


def test_a_mistyped_scheme_names_the_address_of_a_service() -> None:
    with pytest.raises(ConfigError) as raised:
        open_store("htps://127.0.0.1:7180")
    assert "http://127.0.0.1:PORT" in raised.value.hint
