"""Approve from a chat: buttons as in Slack call this service, and the session continues.

    CHAT_SECRET=... uvicorn approval_webhook:app

The service checks the signature of each request and maps the account to a person, because a vote is recorded
under a name. The message with the buttons comes from `open_approvals`; send it with the client of your chat.
"""

import hashlib
import hmac
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypedDict
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import perdure
from perdure import Gate, Session, program, tool

PEOPLE = {"U01ADA": "ada", "U02GRACE": "grace"}
OLDEST = 300  # seconds: an older request may be a copy


@tool(replay="escalate", gate=Gate("deploy", expires="24h"), targets=("service:{service}",))
def deploy(service: str, version: str) -> str:
    return f"{service} {version} is live"


@program
async def release(s: Session, service: str, version: str) -> str:
    return await s.do(deploy, service=service, version=version)


class State(TypedDict):
    runtime: perdure.Runtime


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[State]:
    async with perdure.Worker(os.environ.get("RELEASE_STORE")) as worker:
        yield {"runtime": worker.runtime}


async def open_approvals(runtime: perdure.Runtime) -> list[dict[str, Any]]:
    """The messages to send: what is asked, and a button for each decision."""
    messages = []
    async for approval in runtime.approvals():
        if approval.decision is None:
            effect = (await runtime.effect(approval.effect_id)).effect
            buttons = [{"action_id": name, "value": approval.id} for name in ("approve", "deny")]
            messages.append({"text": f"{effect.tool} {effect.intent}", "actions": buttons})
    return messages


async def on_button(request: Request) -> JSONResponse:
    body = await request.body()
    if not is_signed(body, request.headers):
        return JSONResponse({"text": "The signature is wrong."}, status_code=401)
    payload = json.loads(parse_qs(body.decode())["payload"][0])
    person, action = PEOPLE.get(payload["user"]["id"]), payload["actions"][0]
    if person is None:
        return JSONResponse({"text": "You are not known here, so you cannot decide."})
    vote = request.state.runtime.approve if action["action_id"] == "approve" else request.state.runtime.deny
    try:
        await vote(action["value"], by=person, because="decided in the chat")
    except perdure.PerdureError as error:  # it is decided or expired already, or its requester may not decide
        return JSONResponse({"text": error.message})
    return JSONResponse({"text": f"Recorded: {action['action_id']} by {person}."})


def is_signed(body: bytes, headers: Any) -> bool:
    sent = headers.get("X-Slack-Request-Timestamp", "")
    if not sent.isdecimal() or abs(time.time() - int(sent)) > OLDEST:
        return False
    secret = os.environ["CHAT_SECRET"].encode()
    expected = "v0=" + hmac.new(secret, b"v0:" + sent.encode() + b":" + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, headers.get("X-Slack-Signature", ""))


app = Starlette(routes=[Route("/chat", on_button, methods=["POST"])], lifespan=lifespan)
