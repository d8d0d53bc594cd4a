"""Each login with a role of the database does its job, and nothing else."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

import perdure
from perdure import Session, program, tool
from perdure.control.roles import apply_roles
from perdure.domain.identity import Identity, acting
from perdure.errors import IllegalMove, NotPermitted
from perdure.runtime.services.registry import make_services
from perdure.store.rights import ROLES
from perdure.store.store import open_store
from perdure.testing.postgres import PostgresServer

pytestmark = pytest.mark.postgres


@tool(replay="idempotent")
def post_role_note(text: str) -> str:
    return f"posted {text}"


@tool(replay="idempotent", gate=perdure.Gate("publish"))
def publish_note(text: str) -> str:
    return f"published {text}"


@program
async def role_story(s: Session, text: str) -> str:
    await s.step("read", str.upper, text)
    await s.decide("post it", because="it is ready")
    await s.remember("note", text)
    await s.do(post_role_note, text=text)
    await s.sleep(seconds=0.001)
    return await s.do(publish_note, text=text)


@pytest.fixture(scope="module")
def urls(postgres_server: PostgresServer) -> Iterator[dict[str, str]]:
    """The address of one store for the login of each role."""
    url = postgres_server.create_database()
    open_store(url).close()
    apply_roles(url, "story")
    with psycopg.connect(url, autocommit=True) as db:
        for role in ROLES:
            db.execute(f"create role story_{role}_login login password 'secret' in role story_{role}".encode())
    address = url.partition("@")[2]
    yield {role: f"postgresql://story_{role}_login:secret@{address}" for role in ROLES}
    with psycopg.connect(url, autocommit=True) as db:
        for role in ROLES:
            db.execute(f"drop role story_{role}_login".encode())
    postgres_server.drop_database(url)


async def test_a_worker_runs_a_session_that_people_approve_by_the_service(urls: dict[str, str]) -> None:
    async with perdure.open(urls["worker"], by="ada") as worker:
        started = await worker.start(role_story.bind("hello"), id="story-1")
        view = await worker.run(started.id)
        assert [one.kind for one in view.waits] == ["approval"]
        asked = [one async for one in worker.approvals(session="story-1")]
        with pytest.raises(NotPermitted):
            await worker.approve(asked[0].id, by="grace", because="I am the worker")
        async with perdure.open(urls["service"]) as service:
            await service.approve(asked[0].id, by="grace", because="it is good")
        async with asyncio.timeout(60):
            view = await worker.run(started.id)
        assert (view.status, view.result) == ("done", "published hello")


async def test_an_auditor_reads_everything_and_writes_nothing(urls: dict[str, str]) -> None:
    async with perdure.open(urls["service"]) as service:
        await service.start(role_story.bind("audit"), id="story-2")
    async with perdure.open(urls["auditor"]) as auditor:
        assert [one.id async for one in auditor.sessions()]
        assert [one.kind async for one in auditor.events("story-2")] == ["session.created"]
        for request in (auditor.cancel("story-2"), auditor.pause("story-2"), auditor.rename("story-2", "story-4")):
            with pytest.raises(NotPermitted):
                await request


async def test_an_approver_sees_what_waits_and_cannot_vote_past_the_service(urls: dict[str, str]) -> None:
    async with perdure.open(urls["worker"]) as worker:
        await worker.run((await worker.start(role_story.bind("third"), id="story-3")).id)
    async with perdure.open(urls["approver"]) as approver:
        asked = [one async for one in approver.approvals(session="story-3", decision="waiting")]
        with pytest.raises(NotPermitted):
            await approver.approve(asked[0].id, by="grace", because="past the service")


async def test_the_service_votes_for_those_whom_it_has_authenticated(urls: dict[str, str]) -> None:
    async with perdure.open(urls["worker"]) as worker:
        await worker.run((await worker.start(role_story.bind("votes"), id="story-5")).id)
        (asked,) = [one async for one in worker.approvals(session="story-5")]
    async with perdure.open(urls["service"]) as service:
        with acting(Identity("db", "story_owner_login")), pytest.raises(IllegalMove, match="votes only as itself"):
            await service.approve(asked.id, by="grace")
        with acting(Identity("token", "t-1")):
            assert (await service.approve(asked.id, by="grace")).decision == "approved"


async def test_an_erasure_needs_no_rights_on_the_search_index(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()
    open_store(url).close()
    apply_roles(url, "story")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("create role eraser login password 'secret' in role story_service")
        db.execute("revoke all on search_entry, search_words, search_position from story_service")
    try:
        async with perdure.open(url) as owner:
            await owner.start(role_story.bind("x"), id="story-6", title="forgotten")
            await owner.cancel("story-6")
            assert [one async for one in owner.search("forgotten")]
            async with perdure.open(f"postgresql://eraser:secret@{url.partition('@')[2]}") as eraser:
                await eraser.remove("story-6", because="asked for")
            assert not [one async for one in owner.search("forgotten")]
    finally:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("drop role eraser")
        postgres_server.drop_database(url)


async def test_a_worker_alone_runs_every_service(urls: dict[str, str]) -> None:
    hook = {"kind": "command", "command": ["/bin/true"]}
    async with perdure.open(urls["worker"], notifications={"ops": hook}) as worker:
        for one in make_services(worker).services.values():
            await one.look()
        assert (await worker.test_notification("ops")).state == "sent"


async def test_a_worker_cannot_migrate_or_make_roles(urls: dict[str, str]) -> None:
    async with perdure.open(urls["worker"]) as worker:
        with pytest.raises(NotPermitted):
            await worker.apply_roles()
        assert (await worker.roles()).in_force


@pytest.mark.parametrize("role", ["worker", "service", "approver", "auditor"])
async def test_each_login_can_ask_the_doctor(urls: dict[str, str], role: str) -> None:
    async with perdure.open(urls[role]) as there:
        report = await there.doctor()
    assert [one.what for one in report.findings if "permi" in one.what] == []
    assert report.governance is not None
    assert len(report.governance.gates.promises) == 5
