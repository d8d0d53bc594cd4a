"""Reads of sensitive things are logged before they happen, where the policy says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Session, program
from perdure.domain.identity import Identity, acting
from perdure.ids import new_uid
from perdure.store.moves import access, policy
from perdure.store.store import Store
from tests.store.support.sessions import raw

EVERYTHING = """default = "allow"
[log_access]
export = true
artifact = true
transcript = true
approval = true
"""


@program
async def access_log_program(s: Session) -> str:
    await s.save(b"large")
    return "done"


async def reads(rt: perdure.Runtime) -> list[tuple[Any, ...]]:
    return [
        (one["identity"], one["action"], one["session"], one["subject"], one["detail"])
        async for one in rt.audit("access")
    ]


async def read_everything(rt: perdure.Runtime, folder: Path) -> None:
    """Read a session in every way that the policy may log."""
    _ = [one async for one in rt.events("s-1")]
    _ = [one async for one in rt.stream("s-1")]
    await rt.state_at("s-1", 1)
    await rt.brief("s-1")
    await rt.export("s-1", folder / f"{new_uid()}.zip")
    async for one in rt.artifacts(session="s-1"):
        await rt.artifact(one.digest)


@pytest.mark.databases("sqlite", "postgres")
async def test_each_way_to_read_a_session_is_logged(target: str, folder: Path) -> None:
    async with perdure.open(target, artifacts=folder / "artifacts") as rt:
        await rt.start(access_log_program.bind(), id="s-1")
        await rt.complete("s-1")
        await read_everything(rt, folder)
        assert await reads(rt) == []
        rt.store.write_now(policy.activate(EVERYTHING, by="ada", because="asked for"))
        with acting(Identity("token", "lovelace")):
            await read_everything(rt, folder)
        found = await reads(rt)
        assert {one[0] for one in found} == {"token:lovelace"}
        assert sorted(one[1] for one in found) == ["artifact", "export", *["transcript"] * 4]
        assert {one[2] for one in found} == {"s-1", None}
        other = [one async for one in rt.audit("access", session="s-1", action="export")]
        assert [one["detail"] for one in other] == ["copy"]


@pytest.mark.databases("sqlite", "postgres")
async def test_who_started_a_session_reads_their_own_transcript(target: str, folder: Path) -> None:
    async with perdure.open(target, artifacts=folder / "artifacts") as rt:
        rt.store.write_now(policy.activate(EVERYTHING, by="ada", because="asked for"))
        await rt.start(access_log_program.bind(), id="s-1")
        await rt.complete("s-1")
        _ = [one async for one in rt.events("s-1")]
        assert await reads(rt) == []
        await rt.export("s-1", folder / "bundle.zip")
        assert [one[1] for one in await reads(rt)] == ["export"]


@pytest.mark.databases("memory")
async def test_nothing_is_read_that_cannot_be_logged(store: Store, folder: Path) -> None:
    async with perdure.Runtime(store, artifacts=folder) as rt:
        await rt.start(access_log_program.bind(), id="s-1")
        store.write_now(policy.activate(EVERYTHING, by="ada", because="asked for"))
        raw(store, "create trigger full before insert on access begin select raise(abort, 'perdure: refused'); end")
        with acting(Identity("token", "lovelace")), pytest.raises(perdure.PerdureError):
            _ = [one async for one in rt.events("s-1")]


def test_a_policy_that_cannot_be_read_logs_every_read() -> None:
    assert access._logged_reads("nonsense") == {"export", "artifact", "transcript", "approval"}
