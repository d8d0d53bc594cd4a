"""Live text for watchers on another machine, whose files are elsewhere: over PostgreSQL, and only while they watch."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
import pytest

from perdure import Agent
from perdure.agent.model import OnText, Reply, Request
from perdure.errors import ModelError
from perdure.runtime.live_text import receiver as receiving
from perdure.runtime.live_text.delta import Delta, RetryNotice
from perdure.runtime.live_text.file import LiveTextReader
from perdure.runtime.live_text.piece import ANNOUNCEMENTS, LONGEST, Announcement, Piece, topic_of
from perdure.runtime.live_text.receiver import RemoteReader
from perdure.runtime.runtime import Runtime
from perdure.store.databases.postgres.database import PostgreSQL
from perdure.store.messages import LARGEST
from perdure.store.store import open_store
from perdure.testing.proxy import wait_until
from tests.agent.conftest import open_runtime
from tests.cli.support.stepped_model import stepped_agent
from tests.control.supervisor.support.deployment import Deployment
from tests.server.support.service import Service
from tests.server.test_streams import reading

pytestmark = pytest.mark.databases("postgres")
MODEL = str(Path(__file__).parents[2] / "cli" / "support" / "stepped_model.py")


class Words:
    """A model that writes each piece when it is allowed to."""

    name = "words"

    def __init__(self, *pieces: str, fails: bool = False) -> None:
        self.pieces, self.fails = pieces, fails
        self.allowed = [asyncio.Event() for _ in range(len(pieces) + 1)]
        self.said = 0

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        for piece, allowed in zip(self.pieces, self.allowed, strict=False):
            await allowed.wait()
            on_text(piece)
            self.said += 1
        await self.allowed[-1].wait()
        if self.fails:
            raise ModelError("Away.", retry=False)
        return Reply("".join(self.pieces))


@asynccontextmanager
async def at(place: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runtime]:
    """A runtime whose files are in a place of its own, as on a machine of its own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    async with open_runtime(target) as runtime:
        assert runtime.live_text.link is not None
        yield runtime


async def until_heard(reader: LiveTextReader, heard: list[Delta], text: str) -> None:
    async with asyncio.timeout(60):
        while "".join(one.text for one in heard) != text:
            heard += reader.poll()
            await asyncio.sleep(0.02)


async def test_watcher_elsewhere_gets_each_piece_once(
    target: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "x" * (3 * LONGEST)
    model = Words("One ", "two ", long)
    agent = Agent("elsewhere", model=model, tools=[])
    async with at(folder / "a", target, monkeypatch) as worker, at(folder / "b", target, monkeypatch) as watcher:
        session = await worker.start(agent.bind("Go.", once=True), id="s")
        running = asyncio.ensure_future(worker.complete("s"))
        with closing(LiveTextReader(watcher.live_text, session.uid)) as reader:
            heard: list[Delta] = []
            model.allowed[0].set()
            await until_heard(reader, heard, "One ")
            model.allowed[1].set()
            await until_heard(reader, heard, "One two ")
            with closing(LiveTextReader(watcher.live_text, session.uid)) as late:  # it gets what was said before
                await until_heard(late, [], "One two ")
            model.allowed[2].set()
            await until_heard(reader, heard, f"One two {long}")
            model.allowed[3].set()
            await running
            assert not any(one.broke_off for one in heard)
            assert len({one.call for one in heard}) == 1
            assert heard[0].after < (await watcher.get("s")).cursor


async def test_watcher_elsewhere_is_told_that_a_call_broke_off(
    target: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Words("Half an ", fails=True)
    agent = Agent("elsewhere", model=model, tools=[])
    async with at(folder / "a", target, monkeypatch) as worker, at(folder / "b", target, monkeypatch) as watcher:
        session = await worker.start(agent.bind("Go."), id="s")
        running = asyncio.ensure_future(worker.run("s"))
        with closing(LiveTextReader(watcher.live_text, session.uid)) as reader:
            heard: list[Delta] = []
            model.allowed[0].set()
            await until_heard(reader, heard, "Half an ")
            model.allowed[1].set()
            await running
            async with asyncio.timeout(60):
                while not heard[-1].broke_off:
                    heard += reader.poll()
                    await asyncio.sleep(0.02)


def channel_of(runtime: Runtime, topic: str) -> str:
    database = runtime.store.database
    assert isinstance(database, PostgreSQL)
    return database.messages.channel(topic)


class Notices:
    """What is sent on channels of PostgreSQL, in order."""

    def __init__(self, db: psycopg.Connection[Any], *channels: str) -> None:
        self._db = db
        self._found: list[psycopg.Notify] = []
        db.add_notify_handler(self._found.append)
        for channel in channels:
            db.execute(f"LISTEN {channel}".encode())

    def on(self, channel: str) -> list[str]:
        self._db.execute("select pg_notify(%s, 'until here')", [channel])  # it comes after what was sent before
        payloads = [one.payload for one in self._found if one.channel == channel]
        return [one for one in payloads if one != "until here"]


async def until_read(worker: Runtime, db: psycopg.Connection[Any], channel: str, name: str) -> None:
    """Announcements arrive in order: when another one is known, those before it are, and the worker listens."""
    link = worker.live_text.link
    assert link is not None
    other = msgspec.json.encode(Announcement("another place", [name])).decode()

    def is_read() -> bool:
        db.execute("select pg_notify(%s, %s)", [channel, other])
        return name in link.sender._watched

    await asyncio.to_thread(wait_until, is_read, "announcements are read")


@pytest.mark.parametrize("watched", ["elsewhere", "here", "by no one"])
async def test_nothing_is_sent_unless_a_session_is_watched_elsewhere(
    watched: str, target: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Words("One ", "two.")
    agent = Agent("elsewhere", model=model, tools=[])
    place = folder / ("b" if watched == "elsewhere" else "a")
    async with at(folder / "a", target, monkeypatch) as worker, at(place, target, monkeypatch) as watcher:
        session = await worker.start(agent.bind("Go.", once=True), id="s")
        with psycopg.connect(target, autocommit=True) as db:
            pieces_on, announced_on = channel_of(worker, topic_of(session.uid)), channel_of(worker, ANNOUNCEMENTS)
            notices = Notices(db, pieces_on, announced_on)
            running = asyncio.ensure_future(worker.complete("s"))
            model.allowed[0].set()
            await until_read(worker, db, announced_on, "first")
            with closing(LiveTextReader(watcher.live_text, session.uid)) as reader:
                if watched != "by no one":
                    await until_heard(reader, [], "One ")
                    wait_until(lambda: any(session.uid in one for one in notices.on(announced_on)), "it is announced")
                    await until_read(worker, db, announced_on, "last")
                for one in model.allowed:
                    one.set()
                await running
            pieces = notices.on(pieces_on)
    assert (len(pieces) > 0) == (watched == "elsewhere")
    sends = [one.name for one in threading.enumerate() if one.name == "perdure-live-text"]
    assert bool(sends) == (watched == "elsewhere")  # without a watcher there is not even a thread
    wait_until(lambda: not any(one.name == "perdure-live-text" for one in threading.enumerate()), "it has ended")


@pytest.fixture
def worker(target: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "watcher"))
    made = Deployment(target, folder)
    made.environment |= {"PERDURE_APP": MODEL, "XDG_RUNTIME_DIR": str(folder / "worker")}
    made.start("worker")
    yield made
    made.close()


@pytest.mark.slow
def test_service_streams_live_text_of_a_worker_elsewhere(
    worker: Deployment, target: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "SILENT", 5.0)
    (folder / "pieces.json").write_text('[["One ", "two "]]')
    with open_store(target) as store, closing(Service(store)) as service:
        owner = service.client("olga")
        service.wait(service.runtime.start(stepped_agent.bind(str(folder)), id="s"))
        with reading(owner, "/v1/sessions/s/live") as lines:
            (folder / "go-0-0").touch()
            assert next(lines)["data"]["text"] == "One "
            (folder / "go-0-1").touch()
            assert next(lines)["data"]["text"] == "two "
            os.kill(worker_of(owner), signal.SIGKILL)
            assert next(lines)["event"] == "discard"  # it does not answer any more


def worker_of(owner: httpx.Client) -> int:
    holder: str = owner.get("/v1/sessions/s").json()["lease_holder"]
    return int(holder.rpartition(":")[2])


def piece(offset: int, text: str = "", call: str = "c", **more: Any) -> Piece:
    return Piece("u", call, 3, offset, text, **more)


def heard(*pieces: Piece) -> list[tuple[str, bool]]:
    reader = RemoteReader("u")
    for one in pieces:
        reader.receive(one)
    return [(one.text, one.broke_off) for one in reader.poll()]


def test_text_is_not_continued_after_a_gap() -> None:
    assert heard(piece(0, "ab"), piece(3, "d")) == [("ab", False)]
    assert heard(piece(0, "ab"), piece(3, "d"), piece(0, "abc"), piece(3, "d")) == [
        ("ab", False), ("c", False), ("d", False)
    ]  # fmt: skip
    assert heard(piece(2, "c"), piece(3, "d")) == []


def test_recorded_and_broken_calls_end_once() -> None:
    ended, broken = piece(2, end="recorded"), piece(2, end="broke off")
    assert heard(piece(0, "ab"), ended, piece(2, "c")) == [("ab", False)]
    assert heard(piece(0, "ab"), broken, broken) == [("ab", False), ("", True)]
    assert heard(piece(0, "ab"), piece(0, "x", "d"), broken) == [("ab", False), ("x", False)]


def test_retry_is_given_once() -> None:
    notice = RetryNotice(1, 1, 3, "busy")
    reader = RemoteReader("u")
    for _ in range(2):
        reader.receive(piece(0, retry=notice))
    assert [one.retry for one in reader.poll()] == [notice]


def test_largest_piece_fits_into_a_message() -> None:
    hostile = "\x01" * LONGEST, "\U0001f600" * LONGEST
    assert all(len(msgspec.json.encode(piece(10**9, one, "c" * 32))) < LARGEST for one in hostile)
