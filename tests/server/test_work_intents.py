"""Attack: a worker gives a call the digest of another one, which people have allowed."""

from __future__ import annotations

import msgspec

from perdure.domain.effect import intent_digest
from perdure.ids import encode
from perdure.store.moves import approval, effect, exemption
from perdure.store.moves.approval import ApprovalRequest
from perdure.store.moves.effect_input import NewEffect
from perdure.store.store import Store
from tests.server.support.service import Service
from tests.server.test_work import ASK, ScriptedWorker, a_dispatch, an_effect, make, set_policy

QUESTION = ApprovalRequest(
    gate="policy", requester="olga", requester_may_decide=True, quorum=1, expires_at=None, may_remember=True,
    lifts=("ask-push",), rules=(("ask-push", "People decide."),),
)  # fmt: skip


def a_push(branch: str) -> NewEffect:
    arguments = {"branch": branch}
    exact = intent_digest("push", arguments, [])
    return msgspec.structs.replace(an_effect(), intent=encode(arguments), intent_digest=exact)


def test_a_call_with_the_digest_of_an_allowed_one_is_refused(service: Service, store: Store) -> None:
    hands = ScriptedWorker(service, "wanda")
    holder = hands.take(make(store))
    set_policy(store, ASK)
    allowed = a_push("topic")
    hands.value(approval.request(holder, allowed, QUESTION))
    id = approval.approval_id(allowed.id)
    voted = service.client("olga").post(f"/v1/approvals/{id}/approve", json={"remember": "this"})
    assert voted.status_code == 200, voted.text
    (granted,) = store.read_now(lambda tx: list(exemption.listing(tx)))
    lifting = a_dispatch(hands, store, exemptions=(granted.id,))
    forged = msgspec.structs.replace(a_push("main"), intent_digest=allowed.intent_digest)
    assert hands.post(effect.plan_and_dispatch(holder, forged, lifting)).status_code == 403
    assert hands.post(effect.plan(holder, forged)).status_code == 403
    assert hands.post(approval.request(holder, forged, QUESTION)).status_code == 403
    hands.value(effect.plan_and_dispatch(holder, a_push("topic"), lifting))


def test_a_remembered_answer_lifts_only_what_people_were_shown(service: Service, store: Store) -> None:
    hands = ScriptedWorker(service, "wanda")
    holder = hands.take(make(store))
    set_policy(store, ASK)
    for shown in ((("tidy", "It is a formality."),), ()):
        hidden = msgspec.structs.replace(QUESTION, rules=shown)
        assert hands.post(approval.request(holder, a_push("main"), hidden)).status_code == 403
    nothing = msgspec.structs.replace(QUESTION, rules=(), lifts=(), may_remember=False)
    assert hands.post(approval.request(holder, a_push("main"), nothing)).status_code == 403
