"""Attack: a secret that sessions use comes back in results, errors, output, model text and logs, and is stored."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from perdure.domain.effect import Effect
from perdure.ids import decode
from tests.agent.support.conversation import lines

VALUE = "tok-7F3a9Zq1-bX4m2Kp8"
SHOWN = "[secret env:TEST_TOKEN]"
KILLED = -9
pytestmark = pytest.mark.slow


class Worker:
    """Processes that work on one store, and everything that they leave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = str(folder / "perdure.db")
        self.log = ""

    def run(self, what: str, die: str = "", **variables: str | None) -> int:
        """Run a program or the agent in a process that has the secret; returns its status."""
        given = {"TEST_TOKEN": VALUE, "PERDURE_SECRETS": "env:TEST_TOKEN", "XDG_RUNTIME_DIR": str(self.folder)}
        environment = {**os.environ, **given, **variables}
        ended = subprocess.run(
            [sys.executable, "-m", "tests.security.secret_app", what, self.store, str(self.folder), die],
            env={name: one for name, one in environment.items() if one is not None},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
        )  # fmt: skip
        self.log += ended.stdout
        return ended.returncode

    async def effects(self, session: str) -> list[Effect]:
        async with perdure.open(self.store) as rt:
            found = [one async for one in rt.effects(session=session)][::-1]
        return [msgspec.structs.replace(one, result=decode(one.result or "null")) for one in found]

    async def export(self, session: str) -> Path:
        async with perdure.open(self.store) as rt:
            await rt.export(session, to := self.folder / f"{session}.zip")
        return to

    def places_of(self, text: str) -> list[str]:
        """Where a text is, in any file, in any file of a bundle, and in what was printed."""
        wanted = text.encode()
        found = [str(path) for path in self._files() if wanted in path.read_bytes()]
        for bundle in self.folder.glob("*.zip"):
            with zipfile.ZipFile(bundle) as opened:
                found += [f"{bundle}:{name}" for name in opened.namelist() if wanted in opened.read(name)]
        return found + (["log"] if text in self.log else [])

    def _files(self) -> Iterator[Path]:
        return (path for path in self.folder.rglob("*") if path.is_file() and path.name != "sent")


@pytest.fixture
def worker(folder: Path) -> Worker:
    (folder / "repository").mkdir()
    return Worker(folder)


async def test_a_value_in_results_and_errors_is_stored_nowhere(worker: Worker) -> None:
    assert worker.run("leaks", PERDURE_SECRETS=None) == 0, worker.log
    bundle = await worker.export("leaks")
    assert bundle.exists()
    assert worker.places_of(VALUE) == []
    probed, isolated, failed = await worker.effects("leaks")
    results: list[Any] = [probed.result, isolated.result]
    assert results == [{SHOWN: [SHOWN]}, f"isolated {SHOWN}"]
    assert (probed.intent, probed.reference) == ({"token": "env:TEST_TOKEN"}, SHOWN)
    assert failed.error is not None
    assert failed.error["message"] == "x" * 3990 + "[secret e…"
    result = (worker.folder / "result").read_text()
    assert result.count(SHOWN) == 5
    assert f"it used {SHOWN}" in worker.log
    assert VALUE not in worker.log


async def test_a_value_in_an_agents_work_is_stored_nowhere(worker: Worker) -> None:
    """In text, live text, refused calls, and output that is split, kept as an artifact, and read after a kill."""
    assert worker.run("agent", "command.begun") == KILLED, worker.log
    assert worker.run("agent") == 0, worker.log
    assert (await worker.export("agent")).exists()
    assert worker.places_of(VALUE) == []
    async with perdure.open(worker.store) as rt:
        said = await lines(rt, "agent")
        commands = [one async for one in rt.effects(session="agent", tool="run_command")]
    assistant, tool = ([one for one in said if one["role"] == role] for role in ("assistant", "tool"))
    assert [one["content"] for one in assistant] == [f"the value is {SHOWN} here", "", "", f"all done, {SHOWN}"]
    assert tool[0]["content"].startswith(f"exit 0\n{SHOWN}\n1\n2\n")
    (artifact,) = worker.folder.rglob(tool[0]["artifact"])
    assert artifact.read_bytes().startswith(f"{SHOWN}\n1\n2\n".encode())
    (kept,) = worker.folder.rglob("1/output")
    assert kept.read_bytes() == artifact.read_bytes()
    pieces = (worker.folder / "pieces").read_text()
    assert pieces == f"the value is {SHOWN} hereall done, {SHOWN}"
    assert assistant[1]["calls"][0]["arguments"] == {"command": f"echo {SHOWN} > stolen"}
    assert "extra" not in assistant[1]
    assert tool[1]["status"] == "not started"
    assert "its arguments contain the secret env:TEST_TOKEN, which may only be used by its ref" in tool[1]["content"]
    assert len(commands) == 1


@pytest.mark.parametrize("point", ["act.begun", "act.after"])
async def test_a_killed_worker_acts_with_the_value_under_one_key(worker: Worker, point: str) -> None:
    assert worker.run("sends", point) == KILLED, worker.log
    (before,) = await worker.effects("sends")
    assert (before.state, before.intent["token"]) == ("dispatched", "env:TEST_TOKEN")
    assert worker.run("sends") == 0, worker.log
    (after,) = await worker.effects("sends")
    same: list[Any] = [
        (one.id, one.intent, one.intent_digest, one.idempotency_key, one.position) for one in (before, after)
    ]
    assert same[0] == same[1]
    assert (after.state, after.result) == ("acknowledged", f"sent with {SHOWN}")
    sent = (worker.folder / "sent").read_text().splitlines()
    assert set(sent) == {f"{after.idempotency_key} {VALUE}"}
    assert len(sent) == (1 if point == "act.begun" else 2)
    assert worker.places_of(VALUE) == []


async def test_a_missing_secret_is_no_doubt(worker: Worker) -> None:
    assert worker.run("leaks", TEST_TOKEN=None) == 1
    assert "The secret env:TEST_TOKEN is not set in the environment of this process." in worker.log
    assert await worker.effects("leaks") == []
    assert worker.run("sends", "act.begun") == KILLED, worker.log
    assert worker.run("sends", TEST_TOKEN=None) == 1
    assert "The secret env:TEST_TOKEN is not set in the environment of this process." in worker.log
    (effect,) = await worker.effects("sends")
    assert (effect.state, effect.doubted_at) == ("dispatched", None)
    assert not (worker.folder / "sent").exists()
    assert worker.run("sends") == 0, worker.log
    assert len((worker.folder / "sent").read_text().splitlines()) == 1
