"""Probes that raise, or answer with odd text."""

from __future__ import annotations

import pytest

import perdure
from perdure import Outcome, Session, program, tool


@tool(replay="probe", inflight=0)
def review_cut(said: str) -> int:
    raise OSError("the line was cut")


@review_cut.probe
def _(said: str) -> Outcome:
    if said == "raise":
        raise ValueError("no such file: \udcff")  # as os.fsdecode makes them
    if said == "unknown":
        return Outcome.unknown("no such file: \udcff")
    return Outcome.happened(7, reference="r\udcff" if said == "surrogate" else "r\0")


@program
async def review_probed(s: Session, said: str) -> int:
    return await s.do(review_cut, said=said)


@pytest.mark.databases("sqlite", "postgres")
@pytest.mark.parametrize("said", ["raise", "unknown", "surrogate"])
async def test_a_probe_with_odd_characters_does_not_block_its_session(target: str, said: str) -> None:
    async with perdure.open(target) as rt:
        await rt.start(review_probed.bind(said=said), id="s")
        assert (await rt.run("s")).status in ("done", "waiting")


@pytest.mark.databases("postgres")
async def test_a_reference_with_a_nul_settles_alike_on_both_databases(target: str) -> None:
    async with perdure.open(target) as rt:
        await rt.start(review_probed.bind(said="nul"), id="s")
        assert (await rt.run("s")).status == "done"


@tool(replay="probe", inflight=0)
def review_unset(n: int) -> int:
    raise OSError("the line was cut")


@review_unset.probe
def _(n: int) -> Outcome:
    raise KeyError("SERVICE_URL")


@program
async def review_unsetter(s: Session) -> int:
    return await s.do(review_unset, n=1)


async def test_a_probe_that_raises_is_named_with_its_error() -> None:
    async with perdure.open("memory:") as rt:
        await rt.start(review_unsetter.bind(), id="s")
        (asked,) = (await rt.run("s")).waits
        (effect,) = [one async for one in rt.effects(session="s")]
        assert (asked.kind, effect.doubt) == ("doubt", "The probe failed: KeyError: 'SERVICE_URL'.")
