"""A bundle carries the files of its session: diff, rewind, fork and the next edit work where it is imported."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.agent.files.branch import snapshot_folder, storage_folder
from perdure.control.branches.files import diff
from perdure.control.branches.in_place_rewind import plan_rewind, rewind_in_place
from perdure.control.branches.merge import merge
from perdure.control.branches.prune import prune
from perdure.control.branches.rewind import rewind
from perdure.control.session_files import ImportedSession, export_session, import_session
from perdure.control.verification import verify_sessions
from perdure.errors import ConfigError, Conflict, NotFound, StoreFull
from perdure.interchange.import_ import CheckedBundle, open_checked
from tests.agent.conftest import open_runtime
from tests.agent.files.test_branch import own, place_of, read, repository, write
from tests.agent.support.conversation import Conversation, calls
from tests.agent.support.git_repository import git, photograph

__all__ = ["repository"]
pytestmark = [pytest.mark.databases("sqlite", "postgres"), pytest.mark.slow]

SCRIPT = [
    calls(write("b.txt", "b\n")), calls(write("deep/c.txt", "c\n")), "End.", calls(read("b.txt")),
    calls(write("b.txt", "b2\n")), "Again.", "More.",
]  # fmt: skip


def clone(source: Path, target: Path) -> Path:
    subprocess.run(["git", "clone", "-q", str(source), str(target)], check=True)
    return target


async def worked(conversation: Conversation, runtime: perdure.Runtime, repository: Path) -> None:
    conversation.declare(SCRIPT, ["write_file", "read_file"])
    await conversation.start(runtime, repository=repository)


async def exported(runtime: perdure.Runtime, path: Path, **options: Any) -> Path:
    await export_session(runtime, "talk", path, by="ada", **options)
    return path


async def imported(runtime: perdure.Runtime, path: Path, **options: Any) -> ImportedSession:
    with open_checked(path) as bundle:
        return await import_session(runtime, bundle, by="grace", **options)


async def first_write(runtime: perdure.Runtime, name: str) -> int:
    events = [one async for one in runtime.events(name) if one.kind == "message"]
    return next(one.number for one in events if one.body["role"] == "tool")


@pytest.mark.parametrize("thin", [False, True])
async def test_a_moved_session_continues_in_a_clone(
    conversation: Conversation, repository: Path, tmp_path: Path, thin: bool
) -> None:
    origin = clone(repository, tmp_path / "origin")
    git(repository, "remote", "add", "origin", "https://ada:secret@example.org/shop.git")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await worked(conversation, runtime, repository)
        path = await exported(runtime, tmp_path / "talk.zip", move=True, thin=thin)
        again = await exported(runtime, tmp_path / "again.zip", move=True, thin=thin)
        assert path.read_bytes() == again.read_bytes()
    there = clone(origin, tmp_path / "there")
    before = photograph(there)
    async with open_runtime(str(tmp_path / "other" / "store.db")) as runtime:
        made = await imported(runtime, path, into=there)
        assert (made.folder, made.files and made.files.remotes) == (str(there), ["https://example.org/shop.git"])
        assert photograph(there) == before
        text = (await diff(runtime, "talk")).text
        assert [one in text for one in ("+++ b/b.txt", "+++ b/deep/c.txt")] == [True, True]
        at = await first_write(runtime, "talk")
        back = await rewind(runtime, "talk", to=at)
        assert sorted(one.name for one in Path(back.folder or "").iterdir()) == [".git", "a.txt", "b.txt"]
        assert made.files is not None
        here = await plan_rewind(runtime, "talk", snapshot=made.files.snapshots[-1])
        assert (await rewind_in_place(runtime, here)).result.written == ["b.txt", "deep/c.txt"]
        await runtime.send("talk", "again")
        assert (await runtime.run("talk")).status == "waiting"
        assert (there / "b.txt").read_text() == "b2\n"
        await prune(runtime, grace=0)
        assert "deep/c.txt" in (await diff(runtime, "talk", first=at)).text
        assert (await imported(runtime, path, into=there)).imported.changed is False


async def test_a_copy_works_in_a_new_folder(conversation: Conversation, repository: Path, tmp_path: Path) -> None:
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await worked(conversation, runtime, repository)
        path = await exported(runtime, tmp_path / "talk.zip")
    async with open_runtime(str(tmp_path / "other" / "store.db")) as runtime:
        (tmp_path / "fresh").mkdir()
        (tmp_path / "link").symlink_to("fresh")
        made = await imported(runtime, path, into=tmp_path / "link")
        fresh = tmp_path / "fresh"
        assert (made.is_new, (fresh / "deep" / "c.txt").read_text(), (fresh / ".git").exists()) == (True, "c\n", False)
        history = await runtime.get(made.imported.session.forked_from or "")
        (fresh / "b.txt").write_text("by hand\n")
        here = await plan_rewind(runtime, history.id, to=await first_write(runtime, history.id))
        assert (await rewind_in_place(runtime, here)).result.removed == ["deep/c.txt"]
        here = await plan_rewind(runtime, history.id, snapshot=here.before)
        assert (await rewind_in_place(runtime, here)).result.written == ["b.txt", "deep/c.txt"]
        assert (fresh / "b.txt").read_text() == "by hand\n"
        (fresh / "b.txt").write_text("b\n")
        assert "+++ b/deep/c.txt" in (await diff(runtime, history.id)).text
        assert not [one async for one in runtime.effects(state="dispatched")]
        await runtime.send("talk", "again")
        assert (await runtime.run("talk")).status == "waiting"
        assert ((await place_of(runtime, "talk")) / "b.txt").read_text() == "b2\n"
        assert (fresh / "b.txt").read_text() == "b\n"
        assert (await merge(runtime, "talk")).merged.written == ["b.txt"]
        assert ((fresh / "b.txt").read_text(), (await runtime.get("talk")).status) == ("b2\n", "waiting")
        back = await rewind(runtime, history.id, to=await first_write(runtime, history.id))
        assert sorted(one.name for one in Path(back.folder or "").iterdir()) == ["a.txt", "b.txt"]


async def test_a_moved_branch_gets_a_folder_here(conversation: Conversation, repository: Path, tmp_path: Path) -> None:
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await worked(conversation, runtime, repository)
        branch = await runtime.fork("talk", id="b")
        await runtime.send("b", "again")
        await runtime.run("b")
        path = tmp_path / "b.zip"
        await export_session(runtime, branch.uid, path, by="ada", move=True)
        elsewhere = await place_of(runtime, "b")
    there = clone(repository, tmp_path / "there")
    async with open_runtime(str(tmp_path / "other" / "store.db")) as runtime:
        await imported(runtime, path, into=there)
        await runtime.send("b", "more")
        assert (await runtime.run("b")).status == "waiting"
        opened = [one async for one in runtime.effects(session="b", tool="open_worktree")]
        (here,) = {Path((one.result or "").strip('"')) for one in opened} - {elsewhere}
        assert (here / "b.txt").read_text() == "b2\n"


async def test_files_can_be_imported_later(conversation: Conversation, repository: Path, tmp_path: Path) -> None:
    async with open_runtime(str(tmp_path / "other" / "store.db")) as runtime:
        await worked(conversation, runtime, repository)
        path = await exported(runtime, tmp_path / "talk.zip")
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "x").write_text("x")
        with pytest.raises(Conflict, match="not empty, and is not a clone"):
            await imported(runtime, path, into=tmp_path / "full", id="second")
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        made = await imported(runtime, path)
        assert (made.folder, made.imported.session.repository) == (None, None)
        with pytest.raises(NotFound, match="works in no folder"):
            await diff(runtime, made.imported.session.forked_from or "")
        made = await imported(runtime, path, into=tmp_path / "fresh")
        assert made.imported.session.repository == str(tmp_path / "fresh")
        assert "b.txt" in (await diff(runtime, made.imported.session.forked_from or "")).text
        checked = await runtime.store.read(verify_sessions, None, lambda _: None)
        assert (checked.damaged, checked.sessions) == ([], 2)


async def test_files_are_left_out_on_request_and_by_size(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await worked(conversation, runtime, repository)
        with pytest.raises(ConfigError, match="known to be on a remote"):
            await exported(runtime, tmp_path / "thin.zip", thin=True)
        for name, options in (("none", {"files": False}), ("small", {"most": 10})):
            done = await export_session(runtime, "talk", tmp_path / f"{name}.zip", by="ada", **options)
            assert done.notes == ["Its 3 snapshots of files are not in the bundle."]
            with open_checked(tmp_path / f"{name}.zip") as bundle:
                assert bundle.files is None
        with open_checked(await exported(runtime, tmp_path / "whole.zip")) as bundle:
            assert bundle.files is not None
            assert len(bundle.files.snapshots) == 3
            size = bundle._bundle.manifest.files["files/snapshots.pack"].size
        with open_checked(await exported(runtime, tmp_path / "less.zip", most=size - 1)) as bundle:
            assert bundle.files is not None
            assert (len(bundle.files.snapshots), bundle.files.left_out) == (2, 1)
        assert snapshot_folder(str(repository), storage_folder(runtime)) is not None


async def test_importing_again_keeps_the_folder(conversation: Conversation, repository: Path, tmp_path: Path) -> None:
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await worked(conversation, runtime, repository)
        path = await exported(runtime, tmp_path / "talk.zip")
    fresh = tmp_path / "fresh"
    async with open_runtime(str(tmp_path / "other" / "store.db")) as runtime:
        await imported(runtime, path, into=fresh)
        again = await imported(runtime, path, into=fresh)
        assert (again.imported.changed, again.folder, again.is_new) == (False, str(fresh), False)
        with pytest.raises(Conflict, match=f"works in {fresh} already"):
            await imported(runtime, path, into=tmp_path / "second")
        assert not (tmp_path / "second").exists()


async def test_a_folder_that_a_killed_import_filled_is_used(
    conversation: Conversation, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await worked(conversation, runtime, repository)
        path = await exported(runtime, tmp_path / "talk.zip")
    async with open_runtime(str(tmp_path / "other" / "store.db")) as runtime:
        with monkeypatch.context() as patched:
            patched.setattr(CheckedBundle, "into", lambda *_, **__: 1 / 0)  # a stand-in for a kill before the rows
            with pytest.raises(ZeroDivisionError):
                await imported(runtime, path, into=tmp_path / "fresh")
        assert (tmp_path / "fresh" / "b.txt").exists()
        made = await imported(runtime, path, into=tmp_path / "fresh")
        assert (made.imported.changed, made.folder) == (True, str(tmp_path / "fresh"))


@pytest.mark.parametrize("kind", ["plain", "sha256"])
async def test_files_outside_git_and_with_long_names_travel(
    conversation: Conversation, tmp_path: Path, kind: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    if kind == "sha256":
        git(work, "init", "-q", "--object-format=sha256")
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", "begin")
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await worked(conversation, runtime, work)
        path = await exported(runtime, tmp_path / "talk.zip", move=True)
    there = tmp_path / "fresh" if kind == "plain" else clone(work, tmp_path / "there")
    async with open_runtime(str(tmp_path / "other" / "store.db")) as runtime:
        await imported(runtime, path, into=there)
        assert "+++ b/deep/c.txt" in (await diff(runtime, "talk")).text


async def test_a_link_in_the_clone_does_not_lead_to_another_folder(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    write_into = repository / "sub"
    write_into.mkdir()
    (write_into / "s.txt").write_text("s\n")
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await worked(conversation, runtime, write_into)
        path = await exported(runtime, tmp_path / "talk.zip")
    there = clone(repository, tmp_path / "there")
    (tmp_path / "outside").mkdir()
    (there / "sub").symlink_to(tmp_path / "outside")
    async with open_runtime(str(tmp_path / "other" / "store.db")) as runtime:
        with pytest.raises(Conflict, match="reached through a link"):
            await imported(runtime, path, into=there)


async def test_files_larger_than_the_free_space_are_refused(
    conversation: Conversation, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await worked(conversation, runtime, repository)
        path = await exported(runtime, tmp_path / "talk.zip")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=3))
    async with open_runtime(str(tmp_path / "other" / "store.db")) as runtime:
        with pytest.raises(StoreFull, match="and 3 are free"):
            await imported(runtime, path, into=tmp_path / "fresh")
    assert not [one for one in tmp_path.iterdir() if "fresh" in one.name]


@pytest.mark.databases("sqlite")
async def test_a_store_inside_the_folder_does_not_leave_with_its_files(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    async with open_runtime(str(repository / "perdure.db"), artifacts=repository / "kept") as runtime:
        await worked(conversation, runtime, repository)
        with pytest.raises(ConfigError, match="own files, such as perdure"):
            await exported(runtime, tmp_path / "talk.zip")
        await exported(runtime, tmp_path / "talk.zip", files=False)
