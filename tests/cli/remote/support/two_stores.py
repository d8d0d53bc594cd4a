"""The same sessions in two stores: one is used directly, the other through a service in a thread."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

import perdure
from perdure import Bound, Gate, Runtime, Session, program, tool
from perdure.cli import main
from perdure.domain.notification import ChannelKind, Topic
from perdure.store.moves import notification
from tests.client.support.service import service
from tests.server.support.service import PATIENCE


@tool(replay="escalate", gate=Gate("remote-gate", requester_may_decide=True), targets=("pr:{pr}",))
def two_merge(pr: int) -> str:
    return f"merged {pr}"


@tool(replay="idempotent")
def two_post(text: str) -> str:
    return text


@program
async def two_review(s: Session, pr: int) -> str:
    await s.do(two_post, text="hello")
    await s.decide("merge it", because="it is small")
    return await s.do(two_merge, pr=pr)


@program
async def two_ask(s: Session) -> object:
    return await s.ask("Which one?", choices=["a", "b"])


@program
async def two_receive(s: Session) -> str:
    return str(await s.receive(str))


@program
async def two_save(s: Session) -> None:
    await s.save(b"a report\n", kind="report")


@program
async def two_fail(s: Session) -> None:
    raise ValueError("no luck")


async def fill(runtime: Runtime) -> None:
    """Sessions in many states, and what belongs to a store."""
    started: dict[str, Bound[Any]] = {
        "review": two_review.bind(pr=7), "ask": two_ask.bind(), "mail": two_receive.bind(), "fail": two_fail.bind(),
        "save": two_save.bind(),
    }  # fmt: skip
    for id, bound in started.items():
        await runtime.run((await runtime.start(bound, id=id, owner="ada", title=f"Title of {id}")).id)
    await runtime.start(two_ask.bind(), id="later", not_before="2h")
    await runtime.start(two_ask.bind(), id="next", queue="nightly")
    await runtime.run((await runtime.start(two_ask.bind(), id="hidden", title="Hidden")).id)
    await runtime.cancel("hidden")
    await runtime.archive("hidden")
    await runtime.set_queue("default", concurrency=3)
    await runtime.set_rate_limit("anthropic", requests=10)
    await runtime.add_order("Be brief.", name="brief")
    await runtime.set_fact("branch", {"name": "main"}, session="ask")
    await runtime.add_task("ask", "Read the diff")
    await runtime.add_schedule("hourly", two_ask.bind(), every="1h")
    await runtime.trigger_schedule("hourly")
    await runtime.store.write(notification.put_channel("mail", ChannelKind.EMAIL, [Topic.APPROVAL], by="ada"))
    await runtime.test_notification("mail")


class TwoStores:
    """`here` and `there` are the addresses; `run` runs a command and returns its exit code and what it printed."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.here = str(folder / "here.db")
        self._store = str(folder / "there.db")
        self._socket = str(folder / "sock")
        self.there = f"unix:{self._socket}"
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    async def _serve(self) -> None:
        async with perdure.open(self._store, by="ada") as runtime:
            await fill(runtime)
            async with service(runtime, self._socket):
                self._ready.set()
                await self._stop.wait()

    def __enter__(self) -> Self:
        self._thread.start()

        async def prepare() -> None:
            async with perdure.open(self.here, by="ada") as runtime:
                await fill(runtime)

        asyncio.run(prepare())
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)
        self._loop.close()

    def run(self, store: str, *words: str) -> tuple[int, str]:
        """A command on one of them, without what differs between two stores."""
        with pytest.raises(SystemExit) as ended:
            main(["--store", store, *words])
        printed = self._capsys.readouterr()
        return int(ended.value.code or 0), neutral(printed.out + printed.err, store)


def neutral(text: str, store: str) -> str:
    """A text without addresses, ids, times, and the names of workers and people."""
    names: dict[str, str] = {}
    text = text.replace(store, "STORE")
    text = re.sub(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{32}\b|\b[eawt]-[0-9a-f]{12,16}\b", lambda found: names.setdefault(
        found[0], f"<{len(names)}>"), text)  # fmt: skip
    text = re.sub(r"\bn-[a-z0-9]{10}\b", "NOTIFICATION", text)
    text = re.sub(r"w-[a-z0-9]{10}(@[^ \"]*:\d+)?", "WORKER", text)
    text = re.sub(r"\b\d{16}\b|\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "TIME", text)
    text = re.sub(r"\d+(m|s|h)( \d+s| \d+m)?(?= |\)|\.|$|,|\")", "SPAN", text, flags=re.MULTILINE)
    text = re.sub(r"\b(ada|os:\d+)\b|\broot\b", "WHO", text)
    return re.sub(r"-{2,}| {2,}", "  ", text)
