"""A worker process without rights to the database runs programs and agents through a service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.clock import SECOND
from perdure.domain.identity import Identity, acting
from perdure.domain.wait import Wait, WaitKind
from perdure.runtime.definitions.program import Bound
from perdure.runtime.services.registry import make_services
from perdure.store.moves import effect, policy, session, wait
from perdure.store.moves.attempt import attempts_of
from perdure.store.store import Store
from perdure.testing import Sink, SinkClient
from perdure.testing.proxy import wait_until
from tests.client.worker.support import remote_app
from tests.client.worker.support.moments import Interceptor, bodies, start_worker
from tests.server.support.service import OWNER, Service

pytestmark = [pytest.mark.slow, pytest.mark.databases("sqlite", "postgres")]
PATIENCE = 180.0


@pytest.fixture
def outside(sink: Sink) -> SinkClient:
    return sink.run()


@pytest.fixture
def worker(work_service: Service, token: str, folder: Path, outside: SinkClient) -> Iterator[None]:
    process = start_worker(work_service.address, token, folder, PERDURE_SINK=outside.url)
    yield
    process.kill()
    process.wait()


def begin(service: Service, id: str, bound: Bound[str] | Bound[list[str]]) -> None:
    service.wait(service.runtime.start(bound, id=id))


def until(store: Store, id: str, *statuses: str) -> None:
    wait_until(lambda: store.read_now(session.find, id).status in statuses, f"{id} is {statuses}", PATIENCE)


def answers(service: Service, store: Store, id: str) -> object:
    until(store, id, "done", "failed")
    return service.wait(service.runtime.result(id))


@pytest.mark.usefixtures("worker")
def test_a_program_and_an_agent_run_to_their_end(work_service: Service, real_store: Store, outside: SinkClient) -> None:
    begin(work_service, "p", remote_app.remote_work.bind(page="p"))
    found = answers(work_service, real_store, "p")
    assert found == ["p"] * 6 + ["p of the child", "{'is': 'p'}", "100000"]
    work_service.wait(work_service.runtime.start(remote_app.remote_agent.bind("a"), id="a"))
    until(real_store, "a", "waiting")
    waits = real_store.read_now(wait.open_of_session, real_store.read_now(session.find, "a").uid)
    assert [one.kind for one in waits] == [WaitKind.INPUT]
    expected = [f'{{"{name}":"p"}}' for name in remote_app.EXPECTED]
    expected += ['{"idempotent":"p of the child"}', '{"idempotent":"a"}']
    assert bodies(outside) == dict.fromkeys(expected, 1)


@pytest.mark.usefixtures("worker")
def test_timers_questions_and_retries_continue(work_service: Service, real_store: Store) -> None:
    begin(work_service, "q", remote_app.remote_question.bind(page="q"))
    begin(work_service, "r", remote_app.remote_retry.bind(page="r"))
    uid = real_store.read_now(session.find, "q").uid

    async def answer() -> None:
        async with make_services(work_service.runtime, ("timers",)):
            while not (asked := real_store.read_now(wait.open_of_kind, uid, WaitKind.INPUT)):
                await work_service.runtime.store.wakeups.wait(work_service.runtime.store.wakeups.version, uid, 0.2)
            await work_service.runtime.answer(asked[0].id, "yes", by="ada")

    work_service.wait(answer())
    assert answers(work_service, real_store, "q") == "yes"
    assert answers(work_service, real_store, "r") == "r"


def test_no_act_begins_after_the_lease_although_the_answer_came_late(
    work_service: Service, interceptor: Interceptor, real_store: Store, token: str, folder: Path, outside: SinkClient
) -> None:
    interceptor.held = frozenset({"effect.plan_and_dispatch", "lease.renew"})
    begin(work_service, "late", remote_app.remote_once.bind(page="late"))
    uid = real_store.read_now(session.find, "late").uid

    def outcomes() -> list[str | None]:
        (done,) = real_store.read_now(effect.of_session, uid)
        return [one.outcome for one in real_store.read_now(attempts_of, uid, done.id)]

    process = start_worker(work_service.address, token, folder, PERDURE_SINK=outside.url, PERDURE_LEASE="2s")
    try:
        wait_until(lambda: bool(real_store.read_now(effect.of_session, uid)), "it is dispatched", PATIENCE)
        until = real_store.read_now(session.get, uid).lease_until or 0
        wait_until(lambda: real_store.clock.now() > until + SECOND, "the lease has ended", PATIENCE)
        interceptor.held = frozenset({"lease.renew"})  # one that arrives now would make the lease current again
        wait_until(lambda: outcomes()[0] is not None, "the first attempt has an outcome", PATIENCE)
        interceptor.held = frozenset()
        assert answers(work_service, real_store, "late") == "late"
    finally:
        process.kill()
        process.wait()
    first, *others, last = outcomes()  # a slow worker may lose its lease again
    assert ({first, *others}, last) == ({"absent"}, "acknowledged")
    assert bodies(outside) == {'{"escalate":"late"}': 1}


ASKS = """
default = "allow"

[[rule]]
name = "ask-escalate"
answer = "ask"
reason = "People decide."
tool = "remote_escalate"

[[rule]]
name = "ask-model"
answer = "ask"
reason = "It costs."
action = "model"
"""


def approve(service: Service, store: Store, id: str) -> None:
    """Wait until a session asks, and approve it."""
    uid = store.read_now(session.find, id).uid

    def asked() -> list[Wait]:
        return store.read_now(wait.open_of_kind, uid, WaitKind.APPROVAL)

    wait_until(lambda: bool(asked()), f"{id} asks", PATIENCE)
    answer = service.client("ada", "approver").post(
        f"/v1/approvals/{asked()[0].id}/approve", json={"because": "I looked"}
    )
    assert answer.status_code == 200, answer.text


@pytest.mark.usefixtures("worker")
def test_what_people_approve_passes_the_judgement_of_the_service(
    work_service: Service, real_store: Store, outside: SinkClient
) -> None:
    with acting(Identity("token", OWNER)):
        real_store.write_now(policy.activate(ASKS, by=OWNER, because="a test"))
    begin(work_service, "asked", remote_app.remote_once.bind(page="asked"))
    approve(work_service, real_store, "asked")
    assert answers(work_service, real_store, "asked") == "asked"
    work_service.wait(work_service.runtime.start(remote_app.remote_agent.bind("agent"), id="agent"))
    approve(work_service, real_store, "agent")
    approve(work_service, real_store, "agent")  # each call of the model
    uid = real_store.read_now(session.find, "agent").uid
    wait_until(
        lambda: [one.kind for one in real_store.read_now(wait.open_of_session, uid)] == [WaitKind.INPUT],
        "the agent rests", PATIENCE,
    )  # fmt: skip
    assert bodies(outside) == {'{"escalate":"asked"}': 1, '{"idempotent":"agent"}': 1}
