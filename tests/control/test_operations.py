"""The methods of `Runtime` that do what the commands do: bundles, branches, briefs, checks."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Agent, BundleInvalid, ConfigError, Conflict, NotFound, Session, program
from perdure.runtime.definitions.program import PROGRAMS
from perdure.testing import ScriptedModel
from tests.agent.support.conversation import calls

TWO = pytest.mark.databases("sqlite", "postgres")
ONE = pytest.mark.databases("sqlite")


@pytest.fixture(autouse=True)
def _own_names() -> Iterator[None]:
    before = dict(PROGRAMS)
    yield
    PROGRAMS.clear()
    PROGRAMS.update(before)


@program
async def asks_operator(s: Session) -> str:
    order = await s.receive(str)
    return f"{order} {await s.ask('Now?')}"


def editor() -> Agent:
    script: list[Any] = [
        calls(("write_file", {"path": "a.txt", "content": "one\n"})),
        "One.",
        calls(("write_file", {"path": "a.txt", "content": "two\n"})),
        "Two.",
    ]
    return Agent("operations_editor", model=ScriptedModel(script), tools=["write_file"], policy=None)


@TWO
async def test_bundle_goes_through_a_stream_and_continues(target: str, tmp_path: Path) -> None:
    stream = io.BytesIO()
    async with perdure.open(target) as rt:
        await rt.start(asks_operator.bind(), id="s")
        await rt.send("s", "ink")
        await rt.run("s")
        done = await rt.export("s", stream, move=True)
        assert (done.mode, (await rt.get("s")).sealed_at is not None) == ("move", True)
        with pytest.raises(NotFound):
            await rt.export("other", stream)
    stream.seek(0)
    async with perdure.open(tmp_path / "other.db") as rt:
        arrived = await rt.import_(stream)
        stream.seek(0)
        assert (arrived.imported.changed, (await rt.import_(stream)).imported.changed) == (True, False)
        (asked,) = (await rt.run("s")).waits
        await rt.answer(asked.id, "yes")
        assert (await rt.complete("s")).result == "ink yes"
        assert (await rt.verify()).damaged == []


@ONE
async def test_bundle_is_written_to_a_path(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with perdure.open(target) as rt:
        await rt.start(asks_operator.bind(), id="team/s")
        done = await rt.export("team/s")
        assert Path(done.path) == tmp_path / "team-s.zip"
        with pytest.raises(Conflict):
            await rt.export("team/s")
        copy = (await rt.import_(done.path, id="copy")).imported
        assert (copy.session.id, copy.mode, copy.dropped) == ("copy", "copy", {})
        with pytest.raises(ConfigError, match="is not a permission"):
            await rt.import_(done.path, keep=["everything"])
        with pytest.raises(BundleInvalid):
            await rt.import_(io.BytesIO(b"no bundle"))
        with pytest.raises(NotFound):
            await rt.import_("missing.zip")


@pytest.mark.slow
@TWO
async def test_branches_of_an_agent(target: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    async with perdure.open(target, artifacts=tmp_path / "artifacts") as rt:
        await rt.start(editor().bind("write one"), id="s", repository=work)
        first = await rt.run("s")
        await rt.send("s", "write two")
        await rt.run("s")
        assert "-one" in (await rt.diff("s", first=first.cursor)).text
        back = await rt.rewind("s", to=first.cursor, id="back")
        assert back.folder is not None
        assert Path(back.folder, "a.txt").read_text() == "one\n"
        assert (await rt.merge("back")).merged.conflicts == []
        plan = await rt.plan_rewind("s", to=first.cursor)
        await rt.rewind_in_place(plan)
        assert (work / "a.txt").read_text() == "one\n"
        brief = await rt.brief("s")
        assert (brief.session, brief.repository) == ("s", str(work))
        report = await rt.prune(plan=True, ended="30d")
        assert (report.plan, list(report.repositories)) == (True, [str(work)])


@TWO
async def test_checks_of_a_store(target: str) -> None:
    async with perdure.open(target) as rt:
        await rt.start(asks_operator.bind(), id="s")
        assert ((await rt.verify("s")).sessions, (await rt.verify()).damaged) == (1, [])
        with pytest.raises(NotFound):
            await rt.verify("other")
        report = await rt.doctor(deep=True)
        assert (report.exists, report.healthy, report.read_everything) == (True, True, True)
        with pytest.raises(ConfigError):
            await rt.prune(ended="soon")
