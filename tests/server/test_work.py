"""What a worker may move and read through the service, and what is refused whatever it says."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from perdure.control.worker_protocol import moves, reads
from perdure.control.worker_protocol.arguments import encode_arguments, parameters_of
from perdure.domain.artifact import Retention
from perdure.domain.effect import EffectState, intent_digest
from perdure.domain.identity import Identity, acting
from perdure.domain.lease import Holder
from perdure.ids import digest, encode, new_uid
from perdure.server.worker import admission
from perdure.server.worker.judgement import DISPATCHES
from perdure.store.invocation import Invocation
from perdure.store.move import Move
from perdure.store.moves import (
    artifact,
    doubt,
    effect,
    lease,
    policy,
    record_change,
    request,
    restore,
    session,
    step,
    vote,
    wait,
)
from perdure.store.moves.claim import ClaimRequest, claim
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.moves.record_change import RecordChange
from perdure.store.moves.session import NewSession
from perdure.store.moves.step import NewStep
from perdure.store.store import Store
from tests.server.support.service import OWNER, Service

pytestmark = pytest.mark.databases("sqlite", "postgres")
TTL = 60_000_000
DENY = 'default = "allow"\n\n[[rule]]\nname = "no-push"\nanswer = "deny"\nreason = "Never."\ntool = "push"\n'
ASK = 'default = "allow"\n\n[[rule]]\nname = "ask-push"\nanswer = "ask"\nreason = "People decide."\ntool = "push"\n'


class ScriptedWorker:
    """A worker that sends moves by hand, as a program that lies could."""

    def __init__(self, service: Service, name: str, *roles: str, scopes: tuple[str, ...] = ("*",)) -> None:
        self.client = service.client(name, *(roles or ("worker",)), scopes=scopes)
        answer = self.client.get("/v1/work")
        self.tag = answer.json()["tag"] if answer.status_code == 200 else "0"
        self.name = f"w-{name}.{self.tag}@host:1"

    def post(self, move: Move[Any], *, id: str | None = None, **changes: Any) -> httpx.Response:
        assert move.invocation is not None
        body = {"move": move.name, "id": id or move.id, "arguments": encode_arguments(move.invocation)} | changes
        given = {"Content-Type": "application/json"}
        return self.client.post("/v1/work/moves", content=msgspec.json.encode(body), headers=given)

    def value(self, move: Move[Any], **changes: Any) -> Any:
        answer = self.post(move, **changes)
        assert answer.status_code == 200, answer.text
        assert "error" not in answer.json(), answer.text
        return answer.json().get("value")

    def error(self, move: Move[Any]) -> str:
        """The error of a move that was not refused, but failed."""
        answer = self.post(move)
        assert answer.status_code == 200, answer.text
        said = answer.json()["error"]
        return str(said["type"])

    def read(self, query: Any, *args: Any) -> httpx.Response:
        body = {"query": reads.NAMES[query], "arguments": encode_arguments(Invocation(query, args, {}))}
        given = {"Content-Type": "application/json"}
        return self.client.post("/v1/work/reads", content=msgspec.json.encode(body), headers=given)

    def take(self, uid: str) -> Holder:
        """Take the lease of a session."""
        said = self.value(lease.acquire(uid, self.name, nonce=new_uid(), ttl=TTL))["of"]
        return Holder(uid, self.name, said["nonce"], said["epoch"], *said["head"]["of"])


@pytest.fixture
def hands(service: Service) -> ScriptedWorker:
    return ScriptedWorker(service, "wanda")


def make(store: Store, id: str = "s", queue: str = "default") -> str:
    with acting(Identity("token", OWNER)):
        return store.write_now(session.create(NewSession(id=id, program="p", arguments={}, queue=queue), by="olga")).uid


def a_step(holder: Holder, name: str = "a") -> Move[int]:
    return step.record(
        holder, NewStep(restart_number=0, scope="", name=name, argument_digest="0", occurrence=0, result="1")
    )


def an_effect(tool: str = "push", replay: str = "idempotent") -> NewEffect:
    key = digest(new_uid())
    return NewEffect(
        id=f"e-{key[:16]}", position=encode([0, "", "do", tool, "0", 0]), generation=0, tool=tool, replay=replay,
        targets="[]", intent="{}", intent_digest=intent_digest(tool, {}, []), idempotency_key=key, reach="outside",
    )  # fmt: skip


def a_dispatch(hands: ScriptedWorker, store: Store, **about: Any) -> Dispatch:
    fence = store.read_now(policy.fence)
    given: dict[str, Any] = {"fence": fence.fence, "policy_version": str(fence.version)} if fence.version else {}
    return Dispatch(worker=hands.name.partition("@")[0], process="{}", **(given | about))


def set_policy(store: Store, text: str) -> None:
    with acting(Identity("token", OWNER)):
        store.write_now(policy.activate(text, by=OWNER, because="a test"))


def test_a_move_that_is_sent_again_is_made_once(store: Store, hands: ScriptedWorker) -> None:
    uid = make(store)
    holder = hands.take(uid)
    move = a_step(holder)
    first = hands.value(move)
    events = store.read_now(session.get, uid).cursor
    assert hands.value(move) == first
    assert store.read_now(session.get, uid).cursor == events
    assert hands.post(a_step(holder, "b"), id=move.id).status_code == 422


def test_an_answer_is_kept_only_until_it_has_arrived(store: Store, hands: ScriptedWorker) -> None:
    holder = hands.take(make(store))
    first = a_step(holder)
    hands.value(first)
    rows = store.read_now(lambda tx: tx.all("request.listing", limit=10))
    assert any(first.id in str(row[1]) for row in rows)
    hands.value(a_step(holder, "b"), done=[first.id])
    rows = store.read_now(lambda tx: tx.all("request.listing", limit=10))
    assert not any(first.id in str(row[1]) for row in rows)


def test_an_old_epoch_can_neither_record_nor_dispatch(store: Store, hands: ScriptedWorker) -> None:
    uid = make(store)
    old = hands.take(uid)
    store.write_now(lease.take_over(uid, "w9@x:1", nonce="n9", ttl=TTL, because="dead"))
    assert hands.error(a_step(old)) == "LeaseLost"
    assert hands.error(effect.plan_and_dispatch(old, an_effect(), a_dispatch(hands, store))) == "LeaseLost"
    assert store.read_now(effect.of_session, uid) == []


def test_the_session_of_another_worker_is_not_moved(service: Service, store: Store, hands: ScriptedWorker) -> None:
    uid = make(store)
    holder = hands.take(uid)
    other = ScriptedWorker(service, "walter")
    assert other.post(a_step(holder)).status_code == 403  # under the name of the other
    stolen = Holder(uid, other.name, holder.nonce, holder.epoch, holder.cursor, holder.chain)
    assert other.post(a_step(stolen)).status_code == 403  # under its own, with the nonce of the other
    free = lease.free(uid, other.name, holder=hands.name, because="found dead")
    assert other.post(free).status_code == 403
    over = lease.take_over(uid, other.name, nonce="n", ttl=TTL, because="dead", taken_from=hands.name)
    assert other.post(over).status_code == 403
    hands.value(a_step(holder))


def test_what_the_token_does_not_cover_does_not_exist(service: Service, store: Store) -> None:
    scoped = ScriptedWorker(service, "wim", scopes=("queue:mine",))
    uid, mine = make(store), make(store, "m", "mine")
    assert scoped.post(lease.acquire(uid, scoped.name, nonce="n", ttl=TTL)).status_code == 404
    assert scoped.read(session.get, uid).status_code == 404
    assert scoped.read(session.get, mine).status_code == 200
    scoped.value(a_step(scoped.take(mine)))
    ask = ClaimRequest(
        worker=scoped.name, nonce="c", programs=frozenset(), limit=1, ttl=TTL, queues=frozenset({"default"})
    )
    assert "the token is for queue:mine, and default was asked for;" in scoped.post(claim(ask)).json()["detail"]


def test_only_a_worker_works_and_only_while_its_token_is_valid(service: Service, store: Store) -> None:
    uid = make(store)
    for role in ("operator", "approver", "auditor"):
        other = ScriptedWorker(service, f"an-{role}", role)
        assert other.post(lease.acquire(uid, other.name, nonce="n", ttl=TTL)).status_code == 403
        assert other.read(session.get, uid).status_code == 403
    token = service.token("wanda", "worker")
    hands = ScriptedWorker.__new__(ScriptedWorker)
    hands.client = service.with_token(token.token)
    hands.name = f"w.{hands.client.get('/v1/work').json()['tag']}@host:1"
    holder = hands.take(uid)
    service.client(OWNER).post(f"/v1/tokens/{token.view.id}/revoke")
    assert hands.post(a_step(holder)).status_code == 401


@pytest.mark.parametrize(
    "name", ["vote.cast", "policy.activate", "doubt.record_verdict", "token.create", "exemption.grant", "os.system"]
)
def test_a_move_that_is_not_in_the_table_does_not_exist(name: str, hands: ScriptedWorker) -> None:
    body = {"move": name, "id": "x", "arguments": {}}
    assert hands.client.post("/v1/work/moves", json=body).status_code == 422
    assert hands.client.post("/v1/work/reads", json={"query": name, "arguments": {}}).status_code == 422


def test_no_move_of_people_is_in_the_table() -> None:
    modules = {name.partition(".")[0] for name in moves.MOVES}
    assert not modules & {
        "vote",
        "withdrawal",
        "policy",
        "exemption",
        "principal",
        "token",
        "sign_in",
        "session_removal",
    }
    people = {doubt.record_verdict.name, doubt.request_undo.name, vote.cast.name, wait.resume.name, "restore.release"}
    assert not people & moves.MOVES.keys()
    assert restore.presume.name in moves.HELD


def test_every_move_has_a_rule_and_every_argument_a_type() -> None:
    assert admission.RULES.keys() == moves.OTHERS.keys()
    assert DISPATCHES.keys() <= moves.HELD.keys()
    for name, factory in (moves.MOVES | reads.READS).items():
        signature, types = parameters_of(factory)
        assert signature.parameters.keys() == types.keys(), name


def test_a_denied_call_is_not_dispatched_whatever_the_worker_says(store: Store, hands: ScriptedWorker) -> None:
    uid = make(store)
    set_policy(store, DENY)
    holder = hands.take(uid)
    denied = effect.plan_and_dispatch(holder, an_effect(), a_dispatch(hands, store))
    assert hands.error(denied) == "PolicyDenied"
    planned = an_effect()
    hands.value(effect.plan(holder, planned))
    assert hands.error(effect.dispatch(holder, planned.id, a_dispatch(hands, store))) == "PolicyDenied"
    assert [one.state for one in store.read_now(effect.of_session, uid)] == [EffectState.PLANNED]
    pure = AttemptResult(outcome="acknowledged", result="1")  # type: ignore[arg-type]
    recorded = effect.record(holder, an_effect(replay="pure"), a_dispatch(hands, store), pure)
    assert hands.error(recorded) == "PolicyDenied"
    hands.value(effect.plan_and_dispatch(holder, an_effect("look"), a_dispatch(hands, store)))


def test_a_call_that_needs_people_waits_for_them_whatever_the_worker_asked(store: Store, hands: ScriptedWorker) -> None:
    uid = make(store)
    set_policy(store, ASK)
    holder = hands.take(uid)
    intent = an_effect()
    assert hands.error(effect.plan_and_dispatch(holder, intent, a_dispatch(hands, store))) == "PolicyDenied"
    hands.value(effect.plan(holder, intent))
    assert hands.error(effect.dispatch(holder, intent.id, a_dispatch(hands, store))) == "PolicyDenied"


def test_a_joint_effect_is_refused(store: Store, hands: ScriptedWorker) -> None:
    holder = hands.take(make(store))
    done = AttemptResult(outcome="acknowledged", result="1")  # type: ignore[arg-type]
    joint = effect.record(holder, an_effect(replay="joint"), a_dispatch(hands, store), done)
    assert hands.post(joint).status_code == 403


def test_a_wait_of_a_person_is_not_resolved_by_a_worker(store: Store, hands: ScriptedWorker) -> None:
    uid = make(store)
    holder = hands.take(uid)
    hands.value(wait.open_(holder, "q", "input", ref="ask"))  # type: ignore[arg-type]
    assert hands.post(wait.resolve(uid, hands.name, "q", "yes")).status_code == 409


def an_index(uid: str, hands: ScriptedWorker, name: str, size: int) -> Move[None]:
    return artifact.index(
        uid, hands.name, name, kind="text/plain", size=size, location=f"{name[:2]}/{name}", retention=Retention.SESSION
    )


def test_a_token_claims_only_bytes_that_it_uploaded_or_may_read(service: Service, store: Store) -> None:
    eve, wim = (ScriptedWorker(service, name, scopes=(f"queue:{name}",)) for name in ("eve", "wim"))
    own, other, second = make(store, "e", "eve"), make(store, "w", "wim"), make(store, "w2", "wim")
    content = b"the plans of wim"
    sent = {"content": content, "headers": {"Content-Type": "application/octet-stream"}}
    assert wim.client.post("/v1/work/artifacts", **sent).status_code == 200  # type: ignore[arg-type]
    name, size = digest(content), len(content)
    wim.value(an_index(other, wim, name, size))
    stolen = [eve.post(an_index(own, eve, name, each)) for each in (size, size + 1)]
    unknown = eve.post(an_index(own, eve, name[:12] + "0" * 52, size))
    told = {(one.status_code, one.json()["title"], one.json().get("detail")) for one in (*stolen, unknown)}
    assert {status for status, *_ in told} == {404}
    assert len(told) == 1, told
    holder = eve.take(own)
    claim = RecordChange("artifact.claim", {"digest": name, "kind": "text/plain", "size": size})
    made = NewStep(restart_number=0, scope="", name=":save", argument_digest="0", occurrence=0)
    assert eve.post(record_change.record_with(holder, made, [claim])).status_code == 404
    assert eve.client.get(f"/v1/work/artifacts/{name}").status_code == 404
    store.write_now(request.forget(store.clock.now() + 1))
    wim.value(an_index(second, wim, name, size))  # a session that the token covers has it
    assert eve.client.post("/v1/work/artifacts", **sent).status_code == 200  # type: ignore[arg-type]
    eve.value(record_change.record_with(holder, made, [claim]))
    assert eve.client.get(f"/v1/work/artifacts/{name}").content == content
