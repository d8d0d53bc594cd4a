"""The recipes for web services, behind a real server that is killed with SIGKILL."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from perdure.testing import Sink
from perdure.testing.proxy import wait_until
from tests.tidy.source import ROOT

RECIPES = ROOT / "examples" / "recipes"
SECRET = "a secret of the chat"
Serve = Callable[..., tuple[httpx.Client, subprocess.Popen[str]]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start uvicorn with a recipe; returns a client and the process."""
    opened: list[tuple[httpx.Client, subprocess.Popen[str]]] = []

    def start(name: str, **environment: str) -> tuple[httpx.Client, subprocess.Popen[str]]:
        line = [sys.executable, "-m", "uvicorn", f"{name}:app", "--port", "0"]
        store = str(tmp_path / "web.db")
        given = os.environ | {"ORDERS_STORE": store, "RELEASE_STORE": store, "PYTHONPATH": str(RECIPES)} | environment
        process = subprocess.Popen(line, cwd=tmp_path, env=given, text=True, stderr=subprocess.PIPE)
        assert process.stderr is not None
        for said in process.stderr:
            if found := re.search(r"running on (http://\S+)", said):
                client = httpx.Client(base_url=found[1], timeout=60, trust_env=False)
                opened.append((client, process))
                return client, process
        raise AssertionError("the server did not start")

    yield start
    for client, process in opened:
        client.close()
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["web_starlette", "web_fastapi"])
def test_an_accepted_order_is_paid_once_after_the_server_is_killed(name: str, serve: Serve) -> None:
    order, key = {"customer": "ada", "cents": 4200}, {"Idempotency-Key": "order-17"}
    with Sink() as sink:
        sink.mode(fault="slow", delay=0.3)
        client, process = serve(name, PAYMENTS_URL=sink.url)
        assert client.post("/orders", json=order, headers=key).status_code == 202
        process.send_signal(signal.SIGKILL)
        process.wait()
        client, _ = serve(name, PAYMENTS_URL=sink.url)
        assert client.post("/orders", json=order, headers=key).json()["id"] == "order-17"
        wait_until(lambda: client.get("/orders/order-17").json()["status"] == "done", "the order is paid")
        assert client.get("/orders/order-17").json()["result"]["status"] == "paid"
        assert client.post("/orders", json=order | {"cents": 1}, headers=key).status_code == 409
        assert client.get("/orders/no-such-order").status_code == 404
        assert len(sink.kept()) == 1


def press(client: httpx.Client, user: str, action: str, approval: str, *, secret: str = SECRET) -> httpx.Response:
    """Press a button in the chat, which signs the request as Slack does."""
    payload = {"user": {"id": user}, "actions": [{"action_id": action, "value": approval}]}
    body, sent = urlencode({"payload": json.dumps(payload)}), str(int(time.time()))
    digest = hmac.new(secret.encode(), f"v0:{sent}:{body}".encode(), hashlib.sha256).hexdigest()
    headers = {"X-Slack-Request-Timestamp": sent, "X-Slack-Signature": f"v0={digest}"}
    return client.post("/chat", content=body, headers=headers)


@pytest.mark.slow
def test_a_button_in_a_chat_approves_under_the_name_of_the_person(serve: Serve, tmp_path: Path) -> None:
    client, _ = serve("approval_webhook", CHAT_SECRET=SECRET)
    perdure = [sys.executable, "-m", "perdure"]
    app = ["--store", str(tmp_path / "web.db"), "--app", str(RECIPES / "approval_webhook.py")]

    def ask(*words: str) -> list[Any]:
        ended = subprocess.run([*perdure, *words, *app, "--json"], text=True, capture_output=True, timeout=180)
        return [json.loads(line) for line in ended.stdout.splitlines()]

    ask("run", "release", "service=shop", "version=2", "--id", "r")  # here or in the server, whichever is first
    wait_until(lambda: len(ask("approvals")) == 1, "the session asks")
    (asked,) = ask("approvals")
    assert press(client, "U01ADA", "approve", asked["id"], secret="another").status_code == 401
    assert "not known" in press(client, "U99EVE", "approve", asked["id"]).json()["text"]
    assert press(client, "U01ADA", "approve", asked["id"]).json()["text"] == "Recorded: approve by ada."
    wait_until(lambda: ask("show", "r")[0]["session"]["status"] == "done", "the worker has deployed")
    assert "approved already" in press(client, "U02GRACE", "deny", asked["id"]).json()["text"]
