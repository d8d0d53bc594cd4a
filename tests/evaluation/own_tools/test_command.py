"""The command for one's own tools: its exit code, its report, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

SHOP = """
import json
import os
import urllib.request
from perdure import Call, tool

def send(key: str | None, body: object) -> None:
    headers = {"Idempotency-Key": key} if key else {}
    request = urllib.request.Request(os.environ["SHOP_URL"], json.dumps(body).encode(), headers, method="POST")
    with urllib.request.urlopen(request, timeout=10):
        pass

@tool(replay="idempotent")
def charge(call: Call, order: int) -> None:
    send(call.key, {"charge": order})
"""
WRONG = """
@tool(replay="idempotent")
def mail(call: Call, order: int) -> None:
    send(None, {"mail": order})
"""


def evaluate(folder: Path, source: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "command_shop.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "perdure", "evaluate", *words],
        cwd=folder,
        env=os.environ | {"PERDURE_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_wrong_tool_is_named_with_what_to_change(tmp_path: Path) -> None:
    words = ("crash", "--app", "command_shop.py", "--env", "SHOP_URL={sink}/orders", "--call", "charge order=7")
    done = evaluate(tmp_path, SHOP + WRONG, *words)
    assert done.returncode == 1, done.stderr
    assert "correct: charge (idempotent)" in done.stdout
    assert "change: Send call.key" in done.stdout
    written = (tmp_path / "perdure-evaluation/results.jsonl").read_bytes().splitlines()
    lines = [msgspec.json.decode(line) for line in written]
    assert {line["name"]: line["verdict"] for line in lines} == {"charge": "correct", "mail": "wrong"}
    assert "the key is not sent" in (tmp_path / "perdure-evaluation/report.html").read_text()
    assert "the key is not sent" in (tmp_path / "perdure-evaluation/report.md").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("crash", "--env", "A=b"), "--env needs --app"),
        (("growth", "--app", "command_shop.py"), "--app is for the workload crash"),
        (("crash", "--app", "command_shop.py", "--env", "SHOP_URL=http://10.1.2.3/x"), "--allow 10.1.2.3"),
        (("crash", "--app", "command_shop.py", "--env", "nothing"), "NAME=VALUE"),
        (("crash", "--app", "command_shop.py", "--call", "refund order=1"), "refund is no tool"),
        (("crash", "--app", "command_shop.py", "--observe", "shelf"), "MODULE:FUNCTION"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = evaluate(tmp_path, SHOP, *words)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert not (tmp_path / "perdure-evaluation").exists()
