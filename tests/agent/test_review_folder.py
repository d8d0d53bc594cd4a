"""Folders, disks and listeners that are not as they should be: what a second reader of the agent core found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from perdure.agent.model import OnText, Reply, Request
from perdure.runtime.live_text import Delta
from tests.agent.conftest import opened
from tests.agent.talk import Talk, calls

pytestmark = pytest.mark.databases("memory")


async def test_a_snapshot_that_cannot_be_kept_loses_no_session(talk: Talk, tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    (kept := tmp_path / "kept").mkdir()
    (kept / "snapshots").write_text("a file where the folder of snapshots should be")
    talk.declare([calls(("write_file", {"path": "a.txt", "content": "x"})), "End."], ["write_file"])
    async with opened(talk.target, artifacts=kept) as runtime:
        session = await talk.start(runtime, repository=work)
        assert session.status == "waiting", session.error


async def test_a_folder_that_is_gone_is_said_and_ends_nothing(talk: Talk, tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    (work / "a.txt").write_text("x")
    read = calls(("read_file", {"path": "a.txt"}))
    talk.declare([read, "Read.", read, "End."], ["read_file", "run_command"])
    async with opened(talk.target, artifacts=tmp_path / "kept") as runtime:
        await talk.start(runtime, repository=work)
        shutil.rmtree(work)
        await runtime.send("talk", "go on")
        session = await runtime.run("talk")
        assert session.status == "waiting", session.error


async def test_a_command_in_a_folder_that_is_gone_ends_nothing(talk: Talk, tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    run = calls(("run_command", {"command": "echo x > a.txt"}), ("write_file", {"path": "b.txt", "content": "x"}))
    talk.declare(["Hello.", run, "End."], ["write_file", "run_command"], unsandboxed=True)
    async with opened(talk.target, artifacts=tmp_path / "kept") as runtime:
        await talk.start(runtime, repository=work)
        shutil.rmtree(work)
        await runtime.send("talk", "go on")
        session = await runtime.run("talk")
        assert session.status == "waiting", session.error


async def test_a_listener_that_raises_stops_no_model(talk: Talk) -> None:
    class Speaks:
        name = "speaks"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            on_text("Hel")
            return Reply("Hello.")

    def broken(piece: Delta) -> None:
        raise BrokenPipeError("nobody listens")

    talk.declare([], model=Speaks())
    async with opened(talk.target) as runtime:
        runtime.on_delta = broken
        session = await talk.start(runtime)
        assert session.waits[0].detail is None, session.waits[0].detail
