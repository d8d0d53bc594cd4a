"""A store with one object of each kind, and a request to each operation that touches them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import httpx

from perdure.domain.notification import ChannelKind, Topic
from perdure.server.operation import JSON, Operation
from perdure.server.operations import TABLE
from perdure.store.moves import notification
from tests.server.support.service import Service

QUEUE = "covered"
LARGE = "x" * 100_000
QUERIES = {"search": "text=hello&session=inbox"}  # of operations that need one
BODIES: dict[str, Any] = {  # where the example does not fit the objects
    "sessions.start": {"program": "service_end", "arguments": {"value": "x"}, "queue": QUEUE},
    "sessions.fork": {"at": 1},
    "sessions.rewind": {"to": 1},
    "effects.settle": {"verdict": "happened", "because": "I looked", "result": "ok"},
    "waits.answer": {"answer": "yes"},
    "facts.set": {"key": "k", "value": 1, "session": "inbox"},
    "facts.verify": {"key": "label", "session": "inbox"},
    "facts.forget": {"key": "label", "session": "inbox"},
    "schedules.put": {"program": "service_end", "arguments": {"value": "x"}, "every": "1h", "queue": QUEUE},
    "schedules.backfill": {"since": "1970-01-01", "until": "1970-01-02"},
    "exemptions.grant": {"rule": "push", "because": "x", "session": "inbox"},
    "principals.add": {"name": "new"},
    "tokens.create": {"principal": "carl"},
}


class Request(NamedTuple):
    """One request."""

    method: str
    path: str
    body: Any
    headers: dict[str, str]

    def send(self, client: httpx.Client) -> httpx.Response:
        given: dict[str, Any] = {"content": self.body} if isinstance(self.body, bytes) else {"json": self.body}
        return client.request(self.method, self.path, headers=self.headers, **(given if self.body is not None else {}))


class World:
    """The objects are in the queue `covered`, as far as they are in one."""

    def __init__(self, service: Service) -> None:
        owner, carl = service.client("olga"), service.client("carl", "operator")

        def start(program: str, id: str, **arguments: str) -> None:
            body = {"program": program, "id": id, "arguments": arguments, "queue": QUEUE}
            assert carl.post("/v1/sessions", json=body).status_code == 201

        start("service_inbox", "inbox", label="x")
        start("service_question", "question", text="?")
        start("service_release", "release", page="p")
        start("service_doubt", "doubt", page="p")
        start("service_end", "end", value=LARGE)
        for id in ("inbox", "question", "release", "doubt"):
            assert service.run(id) == "waiting"
        service.run("end")
        schedule = BODIES["schedules.put"]
        exemption = owner.post("/v1/exemptions", json=BODIES["exemptions.grant"]).json()["id"]
        owner.post("/v1/schedules/nightly", json=schedule)
        service.store.write_now(notification.put_channel("mail", ChannelKind.EMAIL, [Topic.APPROVAL], by="olga"))
        owner.post(f"/v1/queues/{QUEUE}", json={"concurrency": 9})
        self.names: dict[str, str] = {
            "sessions": "inbox",
            "effects": owner.get("/v1/effects", params={"in_doubt": True}).json()["items"][0]["id"],
            "approvals": owner.get("/v1/approvals").json()["items"][0]["id"],
            "waits": owner.get("/v1/waits", params={"kind": "input"}).json()["items"][-1]["id"],
            "artifacts": owner.get("/v1/artifacts").json()["items"][0]["digest"],
            "queues": QUEUE,
            "schedules": "nightly",
            "rate-limits": "anthropic",
            "exemptions": exemption,
            "principals": "carl",
            "notification-channels": "mail",
            "tokens": service.token("carl").view.id,
            "digest": owner.get("/v1/artifacts").json()["items"][0]["digest"],
            "task": owner.get("/v1/sessions/inbox/tasks").json()["items"][0]["id"],
            "decision": owner.get("/v1/decisions").json()["items"][0]["id"],
            "audit": "failed-runs",
        }
        uid = owner.get("/v1/sessions/inbox").json()["uid"]
        self.work = {
            "work.move": {"move": "wait.fire", "id": "m1", "arguments": {"args": [uid, "timer", "w-none"]}},
            "work.read": {"query": "session.get", "arguments": {"args": [uid]}},
        }
        self.names["audit"] = owner.get("/v1/audit").json()[0]["name"]
        self.bundle = owner.post("/v1/sessions/question/export").content

    def parameters(self, one: Operation) -> dict[str, str]:
        """The names in the path of an operation, of what is there."""
        noun = one.path.split("/")[2]
        found = {name: self.names[name if name in self.names else noun] for name in re.findall(r"{([a-z]+)}", one.path)}
        return found | ({"id": "end"} if one.name == "decisions.settle" else {})

    def request(self, one: Operation) -> Request:
        """A request to an operation that touches what is there."""
        path = re.sub(r"{([a-z]+)}", lambda match: self.parameters(one)[match[1]], one.path)
        if one.name in self.work:
            return Request(one.method, path, self.work[one.name], {})
        if one.name == "work.upload":
            return Request(one.method, path, b"bytes", {"Content-Type": one.takes})
        if one.takes != JSON:
            return Request(one.method, f"{path}?id=imported", self.bundle, {"Content-Type": one.takes})
        if one.name in QUERIES:
            return Request(one.method, f"{path}?{QUERIES[one.name]}", None, {})
        return Request(one.method, path, BODIES.get(one.name, one.example) if one.method != "GET" else None, {})


def operations() -> list[Operation]:
    return list(TABLE)
