"""The sender of notifications: each channel on its own, later and later after failures, given up and retried."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import ConfigError, Gate, Session, program, tool
from perdure.clock import SECOND
from perdure.domain.notification import MOST_ATTEMPTS, Notification
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.housekeeping import TOLD, Housekeeping
from perdure.runtime.services.notifications import NotificationSender
from perdure.runtime.workers.worker import Worker
from perdure.store.moves import notification
from perdure.testing import ManualClock
from tests.runtime.support.receivers import WebReceiver, web_receiver
from tests.runtime.support.scripted_world import World

SECRET = "a-secret-that-no-row-may-have"
MEMORY = pytest.mark.databases("memory")


@tool(replay="pure", gate=Gate("notified"))
async def guarded_for_notice(path: str) -> str:
    return path


@program
async def notified_program(s: Session, path: str) -> str:
    return str(await s.do(guarded_for_notice, path=path))


@program
async def failing_for_notice(s: Session) -> None:
    raise ValueError("broken on purpose")


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebReceiver]:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    with web_receiver() as running:
        yield running


def webhook(to: WebReceiver, **more: Any) -> dict[str, Any]:
    return {"kind": "webhook", "url": to.url, "secrets": ["env:HOOK_SECRET"], "private": True} | more


def reopened(world: World, **channels: Any) -> Runtime:
    world.rt.close()
    world.rt = world.open(notifications=channels)
    return world.rt


async def send(sender: NotificationSender) -> None:
    """Look once, and let the channels send what is due."""
    sender.look_at = 0
    await sender.look_if_due()
    while sender._tasks:
        await asyncio.wait(list(sender._tasks.values()))


async def told(rt: Runtime, **only: Any) -> list[Notification]:
    return [one async for one in rt.notifications(**only)]


@pytest.mark.databases("sqlite", "postgres")
async def test_an_approval_and_a_failure_are_told_without_their_arguments(world: World, receiver: WebReceiver) -> None:
    rt = reopened(
        world, ops=webhook(receiver, console="https://perdure.example/"), doubts=webhook(receiver, topics=["doubt"])
    )
    sender = NotificationSender(rt)
    await send(sender)
    await world.run(notified_program.bind("/etc/s3cr3t-path"), id="s")
    await world.run(failing_for_notice.bind(), id="f")
    await send(sender)
    first, second = sorted((msgspec.json.decode(one.body) for one in receiver.received), key=lambda one: one["topic"])
    (asked,) = [one async for one in rt.approvals()]
    assert (first["topic"], first["session"]["id"], first["about"]["wait"]) == ("approval", "s", asked.id)
    assert first["commands"] == [f"perdure approvals {asked.id}"]
    assert first["link"] == "https://perdure.example/sessions/s"
    assert (second["topic"], second["about"]["why"]) == ("failure", "broken on purpose")
    assert b"s3cr3t-path" not in b"".join(one.body for one in receiver.received)
    assert {(one.channel, one.state, one.attempts) for one in await told(rt)} == {("ops", "sent", 1)}
    rows = str(await told(rt)) + str([one async for one in rt.notification_channels()])
    assert SECRET not in rows
    assert str(receiver.port) not in rows


async def test_an_attempt_is_repeated_later_with_the_same_id(world: World, receiver: WebReceiver) -> None:
    rt = reopened(world, ops=webhook(receiver))
    sender = NotificationSender(rt)
    await send(sender)
    await world.run(notified_program.bind("a"))
    receiver.status = 503
    await send(sender)
    await send(sender)  # it is not due yet
    assert len(receiver.received) == 1
    world.clock.advance(seconds=10)
    receiver.status = 200
    await send(sender)
    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert [(one.state, one.attempts) for one in await told(rt)] == [("sent", 2)]


@MEMORY
async def test_a_notification_is_given_up_and_sent_again_on_request(world: World, receiver: WebReceiver) -> None:
    rt = reopened(world, ops=webhook(receiver))
    sender = NotificationSender(rt)
    await send(sender)
    await world.run(notified_program.bind("a"))
    receiver.status = 500
    for _ in range(MOST_ATTEMPTS + 2):
        await send(sender)
        world.clock.advance(hours=1)
    assert len(receiver.received) == MOST_ATTEMPTS
    assert [(one.state, one.error) for one in await told(rt, state="failed")] == [
        ("failed", "the receiver answered 500")
    ]
    receiver.status = 200
    assert await rt.retry_notifications(channel="other") == 0
    assert await rt.retry_notifications() == 1
    await send(sender)
    assert [one.state for one in await told(rt)] == ["sent"]


@MEMORY
async def test_a_sender_that_dies_at_each_attempt_gives_up(world: World, receiver: WebReceiver) -> None:
    rt = reopened(world, ops=webhook(receiver))
    await send(NotificationSender(rt))
    await world.run(notified_program.bind("a"))
    for number in range(MOST_ATTEMPTS):
        (one,) = await rt.store.read(notification.first_due, "ops", limit=1)
        claim = notification.claim(one.id, "ops", seen=one.next_at, by=f"died-{number}")
        assert await rt.store.write(claim) is not None
        world.clock.advance(seconds=notification.CLAIM // SECOND)
    await send(NotificationSender(rt))
    assert receiver.received == []
    assert [one.state for one in await told(rt)] == ["failed"]


@pytest.mark.databases("sqlite")
async def test_a_receiver_that_does_not_answer_delays_no_other(world: World, receiver: WebReceiver) -> None:
    with web_receiver() as slow:
        slow.held.clear()
        rt = reopened(world, slow=webhook(slow), ops=webhook(receiver))
        sender = NotificationSender(rt)
        await send(sender)
        await world.run(notified_program.bind("a"))
        sender.look_at = 0
        await sender.look_if_due()  # returns although one receiver does not answer
        await asyncio.wait_for(asyncio.wait([sender._tasks["ops"]]), 60)
        assert {one.channel: one.state for one in await told(rt)} == {"ops": "sent", "slow": "pending"}
        slow.held.set()
        await asyncio.wait_for(asyncio.wait([sender._tasks["slow"]]), 60)
    assert {one.channel: one.state for one in await told(rt)} == {"ops": "sent", "slow": "sent"}


@pytest.mark.databases("sqlite")
async def test_a_worker_sends_before_it_ends(world: World, receiver: WebReceiver) -> None:
    rt = reopened(world, ops=webhook(receiver))
    await rt.start(notified_program.bind("a"), id="s")
    await Worker(rt).run(idle=0)
    assert [one.state for one in await told(rt)] == ["sent"]
    assert len(receiver.received) == 1


@MEMORY
async def test_wrong_settings_stop_a_worker_and_nothing_else(world: World) -> None:
    rt = reopened(world, ops={"kind": "command", "command": ["page"]})
    await world.run(notified_program.bind("a"))
    with pytest.raises(ConfigError, match="absolute path"):
        Worker(rt)


@MEMORY
async def test_a_test_is_sent_at_once_where_the_channel_is_known(world: World, tmp_path: Path) -> None:
    code = f"import sys; open({str(tmp_path / 'got')!r}, 'w').write(sys.stdin.read())"
    rt = reopened(world, ops={"kind": "command", "command": [sys.executable, "-c", code]})
    assert (await rt.test_notification("ops")).state == "sent"
    assert '"topic":"test"' in (tmp_path / "got").read_text()
    assert await rt.remove_notification_channel("ops")
    assert not await rt.remove_notification_channel("ops")


@MEMORY
async def test_old_notifications_are_forgotten(world: World, receiver: WebReceiver, clock: ManualClock) -> None:
    rt = reopened(world, ops=webhook(receiver))
    await rt.test_notification("ops")
    await Housekeeping(rt).look()
    assert len(await told(rt)) == 1
    clock.advance(seconds=TOLD // SECOND + 1)
    await Housekeeping(rt).look()
    assert await told(rt) == []
