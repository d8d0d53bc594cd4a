"""Clients of a service that is killed, and what they were told: the witness of what the service has acknowledged.

They send plain HTTP, each request under a key of its own until it is answered, and share no code with the client of
Perdure. Only the streams are read through it.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

import httpx
import msgspec

import perdure
from perdure import Runtime
from perdure.ids import new_uid
from tests.crash.support.service_app import killed_echo

ZIP = "application/zip"
PATIENCE = 180.0
FAR = "24h"
VERBS = ("start", "rename", "vote", "export", "import")


class Acknowledged(NamedTuple):
    """A request and its answer. `subject` is what it was about: the uid of a session, an argument, a title."""

    verb: str
    subject: str
    path: str
    key: str
    token: str
    content: bytes
    media: str
    identity: str  # what the answer names


class ClientLog:
    """What was acknowledged to all clients, and which requests are under way."""

    def __init__(self, address: str) -> None:
        self.http = httpx.AsyncClient(base_url=address, timeout=30, trust_env=False)
        self.acknowledged: list[Acknowledged] = []
        self.in_flight: Counter[str] = Counter()

    async def post(
        self, verb: str, subject: str, path: str, token: str, body: bytes | dict[str, Any], key: str | None = None
    ) -> httpx.Response:
        """Send a request until it is answered; a refusal is a failure of the test."""
        content, media = (body, ZIP) if isinstance(body, bytes) else (msgspec.json.encode(body), "application/json")
        key, is_new = key or new_uid(), key is None
        self.in_flight[verb] += 1
        try:
            answer = await self._until_answered(
                "POST", path, content=content,
                headers={"Authorization": f"Bearer {token}", "Idempotency-Key": key, "Content-Type": media},
            )  # fmt: skip
        finally:
            self.in_flight[verb] -= 1
        if is_new:
            one = Acknowledged(verb, subject, path, key, token, content, media, identity_of(answer))
            self.acknowledged.append(one)
        return answer

    async def get(self, path: str, token: str, **query: str) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        return (await self._until_answered("GET", path, params=query, headers=headers)).json()

    async def ask_again(self) -> list[str]:
        """Send every acknowledged request again under its key; what is answered otherwise."""
        wrong = []
        for one in self.acknowledged:
            body: Any = one.content if one.media == ZIP else msgspec.json.decode(one.content)
            answer = await self.post(one.verb, one.subject, one.path, one.token, body, one.key)
            if identity_of(answer) != one.identity:
                wrong.append(f"{one.verb} {one.subject}: first {one.identity}, then {identity_of(answer)}")
        return wrong

    def subjects(self, verb: str) -> list[str]:
        return [one.subject for one in self.acknowledged if one.verb == verb]

    async def _until_answered(self, method: str, path: str, **given: Any) -> httpx.Response:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    answer = await self.http.request(method, path, **given)
                except httpx.TransportError:
                    await asyncio.sleep(0.02)
                    continue
                is_busy = answer.status_code == 409 and answer.json()["code"] == "request-in-flight"
                if is_busy or answer.status_code in (429, 503):
                    await asyncio.sleep(0.02)
                    continue
                assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
                return answer


def identity_of(answer: httpx.Response) -> str:
    """What an answer is about: a session, an approval, or the bytes of a bundle."""
    if answer.headers["content-type"] == ZIP:
        digest: str = answer.headers["perdure-digest"]
        assert digest == f"sha-256={sha256(answer.content).hexdigest()}"
        return digest
    told = answer.json()
    return str(told["session"]["uid"] if "changed" in told else told.get("uid") or told["id"])


class Tokens(NamedTuple):
    """The clients are one principal; two others approve."""

    owner: str
    approvers: tuple[str, str]


class Client:
    """Does every verb in turn until `is_over`, and follows a session of its own all the time."""

    numbers = itertools.count()

    def __init__(self, log: ClientLog, tokens: Tokens, source: Runtime, is_over: Callable[[], bool]) -> None:
        self._log, self._tokens, self._source, self._is_over = log, tokens, source, is_over
        self._name = new_uid()[-8:]
        self.watched = ""
        self.seen: list[int] = []  # the numbers that came on the stream

    async def run(self) -> None:
        self.watched = await self.start("killed_echo", id=f"watched-{self._name}", not_before=FAR)
        following = asyncio.create_task(self._follow())
        rounds = itertools.count()
        while not self._is_over():
            number = next(rounds)
            title = f"{self._name} {number}"
            await self.start("killed_echo")
            await self._post("rename", title, f"/v1/sessions/{self.watched}/rename", {"title": title})
            await self._vote(await self.start("killed_review"))
            leaving = await self.start("killed_echo", not_before=FAR)
            await self._post("export", leaving, f"/v1/sessions/{leaving}/export", {"move": True})
            id = f"arrived-{self._name}-{number}"
            await self._post("import", id, f"/v1/import?id={id}", await self._bundle())
        last = (await self._log.get(f"/v1/sessions/{self.watched}", self._tokens.owner))["cursor"]
        async with asyncio.timeout(PATIENCE):
            while not following.done() and (not self.seen or self.seen[-1] < last):
                await asyncio.sleep(0.02)
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following

    async def start(self, program: str, **options: str) -> str:
        n = next(self.numbers)
        body = {"program": program, "arguments": {"n": n}, **options}
        uid: str = (await self._post("start", str(n), "/v1/sessions", body)).json()["uid"]
        return uid

    async def _post(self, verb: str, subject: str, path: str, body: bytes | dict[str, Any]) -> httpx.Response:
        return await self._log.post(verb, subject, path, self._tokens.owner, body)

    async def _vote(self, uid: str) -> None:
        while not (found := await self._log.get("/v1/approvals", self._tokens.owner, session=uid))["items"]:
            await asyncio.sleep(0.02)
        path = f"/v1/approvals/{found['items'][0]['id']}/approve?session={uid}"
        votes = (self._log.post("vote", uid, path, token, {"because": "ok"}) for token in self._tokens.approvers)
        await asyncio.gather(*votes)

    async def _bundle(self) -> bytes:
        """A session that was moved away from another store."""
        made = await self._source.start(killed_echo.bind(n=-1), not_before=FAR)
        content = io.BytesIO()
        await self._source.export(made.id, content, move=True)
        return content.getvalue()

    async def _follow(self) -> None:
        async with perdure.connect(str(self._log.http.base_url), self._tokens.owner, patience=PATIENCE) as there:
            async for event in there.events(self.watched, follow=True):
                self.seen.append(event.number)


def merged(folder: str) -> Counter[str]:
    """How many different keys each number was merged under."""
    path = os.path.join(folder, "merged")
    with open(path) as file:
        return Counter(line.split()[0] for line in set(file))
