"""Attack: a worker names what its token does not cover, or a policy that is not active, in the arguments of a move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest

from perdure.domain.effect import AttemptOutcome, intent_digest
from perdure.domain.lease import Holder
from perdure.domain.wait import WaitKind
from perdure.ids import decode, digest, encode
from perdure.runtime.run.large_values import KEPT
from perdure.store.move import Move
from perdure.store.moves import effect, message, session, session_end, wait
from perdure.store.moves.artifact import ArtifactClaim
from perdure.store.moves.effect_input import AttemptResult
from perdure.store.moves.message import CutReply, ModelUsage
from perdure.store.moves.session import NewSession
from perdure.store.store import Store
from tests.server.support.service import Service
from tests.server.test_work import DENY, ScriptedWorker, a_dispatch, an_effect, an_index, make, set_policy

pytestmark = pytest.mark.databases("sqlite", "postgres")
CONTENT = b'{"plans": "of wim"}'
NAME, SIZE = digest(CONTENT), len(CONTENT)
DONE = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result="1")


@pytest.fixture
def eve(service: Service) -> ScriptedWorker:
    return ScriptedWorker(service, "eve", scopes=("queue:eve",))


@pytest.fixture
def wim(service: Service) -> ScriptedWorker:
    return ScriptedWorker(service, "wim", scopes=("queue:wim",))


def a_child(holder: Holder, id: str = "child", **about: Any) -> NewSession:
    return NewSession(**{"id": id, "program": "p", "arguments": {}, "queue": "eve", "parent_uid": holder.uid} | about)


NAMING: dict[str, Callable[[ScriptedWorker, Holder, Store], Move[Any]]] = {
    "claims of a child": lambda eve, holder, _: session.create(
        a_child(holder, claims=(ArtifactClaim(NAME, SIZE, "text/plain"),)), by=eve.name
    ),
    "arguments of a child": lambda eve, holder, _: session.create(a_child(holder, arguments={KEPT: NAME}), by=eve.name),
    "claims of lines": lambda _, holder, __: message.append_lines(
        holder, [{"role": "user"}], [ArtifactClaim(NAME, SIZE, "text/plain")]
    ),
    "result of an effect": lambda eve, holder, store: effect.record(
        holder,
        an_effect(replay="pure"),
        a_dispatch(eve, store),
        msgspec.structs.replace(DONE, result=None, artifact=NAME),
    ),
    "arguments of an effect": lambda _, holder, __: effect.plan(
        holder,
        msgspec.structs.replace(
            an_effect(), intent=encode({KEPT: NAME}), intent_digest=intent_digest("push", decode(CONTENT.decode()), [])
        ),
    ),
    "arguments of a restart": lambda _, holder, __: session_end.restart(holder, {KEPT: NAME}),
}


@pytest.mark.parametrize("named", NAMING)
def test_bytes_of_others_are_not_named(named: str, eve: ScriptedWorker, wim: ScriptedWorker, store: Store) -> None:
    sent = {"content": CONTENT, "headers": {"Content-Type": "application/octet-stream"}}
    assert wim.client.post("/v1/work/artifacts", **sent).status_code == 200  # type: ignore[arg-type]
    wim.value(an_index(make(store, "w", "wim"), wim, NAME, SIZE))
    holder = eve.take(make(store, "e", "eve"))
    assert eve.post(NAMING[named](eve, holder, store)).status_code == 404
    assert eve.client.get(f"/v1/work/artifacts/{NAME}").status_code == 404
    assert eve.client.post("/v1/work/artifacts", **sent).status_code == 200  # type: ignore[arg-type]
    eve.value(NAMING[named](eve, holder, store))


def test_a_child_with_the_id_of_a_session_elsewhere_is_refused(eve: ScriptedWorker, store: Store) -> None:
    elsewhere = make(store, "w", "wim")
    holder = eve.take(make(store, "e", "eve"))
    for child in (a_child(holder, "w"), a_child(holder, "w", arguments={"other": 1}), a_child(holder, uid=elsewhere)):
        answer = eve.post(session.create(child, by=eve.name))
        assert answer.status_code == 409
        assert elsewhere not in answer.text


def refused(answer: httpx.Response) -> tuple[Any, ...]:
    said = answer.json()
    return answer.status_code, said.get("title"), said.get("error")


def test_a_wait_for_what_is_elsewhere_tells_nothing_of_it(
    eve: ScriptedWorker, wim: ScriptedWorker, store: Store
) -> None:
    elsewhere = make(store, "w", "wim")
    secret = an_effect()
    wim.value(effect.plan_and_dispatch(wim.take(elsewhere), secret, a_dispatch(wim, store)))
    holder = eve.take(make(store, "e", "eve"))

    def told(kind: WaitKind, ref: str) -> tuple[Any, ...]:
        eve.value(wait.open_(holder, f"for-{ref}", kind, ref=ref))
        by = "child:w" if kind is WaitKind.CHILD else eve.name
        return refused(eve.post(wait.resolve(holder.uid, by, f"for-{ref}", {"id": "w"})))

    assert told(WaitKind.EFFECT, secret.id) == told(WaitKind.EFFECT, secret.id[:6]) == told(WaitKind.EFFECT, "e-none")
    assert told(WaitKind.CHILD, elsewhere) == told(WaitKind.CHILD, "none")


def test_a_policy_that_is_not_active_allows_nothing(service: Service, store: Store) -> None:
    hands = ScriptedWorker(service, "wanda")
    holder = hands.take(make(store))
    set_policy(store, DENY)
    pure, dead = an_effect(replay="pure"), a_dispatch(hands, store, policy_version="0")
    assert hands.error(effect.record(holder, pure, dead, DONE)) == "PolicyDenied"
    assert hands.post(effect.record(holder, pure, dead, DONE, over=True)).status_code == 403
    assert hands.post(message.record_reply(holder, pure, dead, DONE, None, ModelUsage())).status_code == 403
    cut = CutReply(pure, dead, DONE, None, ModelUsage())
    assert hands.post(message.end_turn(holder, [], {}, cut=cut)).status_code == 403
    assert store.read_now(effect.of_session, holder.uid) == []


def test_a_call_that_ran_under_a_policy_that_changed_is_judged_anew(service: Service, store: Store) -> None:
    hands = ScriptedWorker(service, "wanda")
    holder = hands.take(make(store))
    before = a_dispatch(hands, store)
    set_policy(store, DENY)
    assert hands.error(effect.record(holder, an_effect(replay="pure"), before, DONE)) == "PolicyChanged"
