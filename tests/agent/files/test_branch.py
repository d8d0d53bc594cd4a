"""Branches with their own folders: they start with the files of the fork and are merged by one effect."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.agent.files.branch import snapshot_folder
from perdure.agent.files.snapshot import Snapshots
from perdure.agent.history.state_reader import state_of
from perdure.agent.history.transcript import State
from perdure.control.branches.files import diff
from perdure.control.branches.merge import merge
from perdure.control.branches.prune import prune
from perdure.control.branches.rewind import rewind
from perdure.errors import ConfigError, IllegalMove, LeaseHeld, NotFound
from perdure.runtime.run.session_lease import acquire
from perdure.store.moves import session as sessions
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls, lines

pytestmark = pytest.mark.databases("sqlite", "postgres")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "begin")):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=work, check=True)
    return work


def write(path: str, content: str) -> tuple[str, Any]:
    return ("write_file", {"path": path, "content": content})


def read(path: str) -> tuple[str, Any]:
    return ("read_file", {"path": path})


def own(tmp_path: Path) -> dict[str, Any]:
    return {"artifacts": tmp_path / "store" / "artifacts"}


async def state(runtime: perdure.Runtime, name: str, number: int = 2**62) -> State:
    def look(tx: Any) -> State:
        return state_of(tx, sessions.find(tx, name), number)[0]

    found: State = await runtime.store.read(look)
    return found


async def test_every_change_of_files_has_a_snapshot(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare([calls(write("b.txt", "b1\n")), calls(read("b.txt")), calls(write("c.txt", "c\n")), "End."],
                 ["read_file", "write_file"])  # fmt: skip
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        said = await lines(runtime)
        kept = [line["snapshot"] for line in said if line.get("snapshot")]
        assert len(kept) == 3  # the start, and two changes; a read is none
        shots = Snapshots(repository, await home(runtime, repository))
        assert [[one.path for one in shots.files(commit)] for commit in kept] == [
            ["a.txt"], ["a.txt", "b.txt"], ["a.txt", "b.txt", "c.txt"],
        ]  # fmt: skip


async def home(runtime: perdure.Runtime, repository: Path) -> Path:
    beside = runtime.store.folder or runtime.values.directory.folder  # type: ignore[union-attr]
    found = snapshot_folder(str(repository), beside)
    assert found is not None
    return found


@pytest.mark.slow
async def test_a_branch_has_its_own_folder_with_the_files_of_its_fork(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(
        [calls(write("b.txt", "b1\n")), "Wrote b.", calls(read("b.txt")), calls(write("b.txt", "b2\n")), "Wrote b2."],
        ["read_file", "write_file"],
    )
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        (repository / "b.txt").write_text("by hand\n")
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "another way")
        view = await runtime.run(branch.id)
        assert view.status == "waiting"
        assert (repository / "b.txt").read_text() == "by hand\n"
        (opened_at,) = [one async for one in runtime.effects(session=branch.id, tool="open_worktree")]
        work_folder = Path((opened_at.result or "").strip('"'))
        assert (work_folder / "b.txt").read_text() == "b2\n"
        assert (work_folder / "a.txt").read_text() == "one\n"
        assert work_folder != repository


@pytest.mark.slow
async def test_a_branch_at_an_earlier_event_has_the_files_of_that_event(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare([calls(write("b.txt", "b1\n")), calls(write("c.txt", "c\n")), "End.", "Branch."],
                 ["write_file"])  # fmt: skip
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        events = [one async for one in runtime.events("talk") if one.kind == "message"]
        first = next(one.number for one in events if one.body["role"] == "tool")
        branch = await runtime.fork("talk", at=first)
        await runtime.run(branch.id)
        (opened_at,) = [one async for one in runtime.effects(session=branch.id, tool="open_worktree")]
        work_folder = Path((opened_at.result or "").strip('"'))
        assert (work_folder / "b.txt").exists()
        assert (repository / "c.txt").exists()


@pytest.mark.slow
async def test_a_branch_is_merged_once_and_its_model_is_informed(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    script = [calls(write("b.txt", "b1\n")), "Wrote b.", calls(write("c.txt", "c\n")), "Wrote c.", "I heard."]
    conversation.declare(script,
                 ["write_file"])  # fmt: skip
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "another way")
        await runtime.run(branch.id)
        (repository / "mine.txt").write_text("mine\n")
        made = await merge(runtime, branch.id)
        assert (made.merged.written, made.merged.conflicts) == (["c.txt"], [])
        assert (repository / "c.txt").read_text() == "c\n"
        assert (repository / "mine.txt").read_text() == "mine\n"
        assert len(conversation.model.requests) == 4  # the merge did not call the model
        await runtime.send(branch.id, "continue")
        await runtime.run(branch.id)
        assert [turn.text for turn in conversation.turns_shown() if "ordered merge_branch: done" in turn.text]


@pytest.mark.slow
async def test_a_merge_before_a_fork_is_not_repeated(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(
        [calls(write("b.txt", "b1\n")), "Wrote b.", calls(write("c.txt", "c\n")), "Wrote c."], ["write_file"]
    )
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "another way")
        await runtime.run(branch.id)
        made = await merge(runtime, branch.id)
        done = [one.number async for one in runtime.events(branch.id) if one.effect_id == made.effect]
        (repository / "c.txt").write_text("changed since\n")
        second = await runtime.fork(branch.id, at=done[-1])
        view = await runtime.run(second.id)
        assert view.status == "waiting", view.error
        assert not [one async for one in runtime.effects(session=second.id, tool="merge_branch")]
        assert (repository / "c.txt").read_text() == "changed since\n"


@pytest.mark.slow
async def test_conflicts_are_reported_to_the_person(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare([calls(read("a.txt")), "Read.", calls(write("a.txt", "theirs\n")), "Wrote a."],
                 ["read_file", "write_file"])  # fmt: skip
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "another way")
        await runtime.run(branch.id)
        (repository / "a.txt").write_text("ours\n")
        made = await merge(runtime, branch.id)
        assert made.merged.conflicts == ["a.txt (contents)"]
        assert (repository / "a.txt").read_text() == "ours\n"
        made = await merge(runtime, branch.id, mark=True)
        assert made.merged.marked
        assert "<<<<<<<" in (repository / "a.txt").read_text()
        assert (await merge(runtime, branch.id)).merged.written == []  # it has been brought home; the rest is his


async def test_an_impossible_order_is_reported(conversation: Conversation) -> None:
    conversation.declare(["Hello."])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        await runtime.send("talk", {"perform": {"tool": "os.system", "arguments": {"x": 1}}})
        view = await runtime.run("talk")
        assert [one.kind for one in view.waits] == ["input"]
        assert (await lines(runtime))[-1]["status"] == "not started"


async def branched(runtime: perdure.Runtime, of: str = "talk", says: str = "another way") -> str:
    """A branch that has done its work and rests."""
    branch = await runtime.fork(of)
    await runtime.send(branch.id, says)
    assert (await runtime.run(branch.id)).status == "waiting"
    return branch.id


async def place_of(runtime: perdure.Runtime, name: str) -> Path:
    (opened_at,) = [one async for one in runtime.effects(session=name, tool="open_worktree")]
    return Path((opened_at.result or "").strip('"'))


async def event_of(runtime: perdure.Runtime, role: str, nth: int = 0, name: str = "talk") -> int:
    events = [one async for one in runtime.events(name) if one.kind == "message" and one.body["role"] == role]
    return events[nth].number


@pytest.mark.slow
async def test_merged_changes_are_not_merged_again(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(["Hello.", calls(write("b.txt", "b1\n")), "One.", calls(write("c.txt", "c\n")), "Two."],
                 ["write_file"])  # fmt: skip
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await branched(runtime)
        assert (await merge(runtime, branch)).merged.written == ["b.txt"]
        (repository / "b.txt").unlink()  # he did not like it
        again = await merge(runtime, branch)
        assert (again.merged.written, again.merged.removed) == ([], [])
        await runtime.send(branch, "and c")
        await runtime.run(branch)
        assert (await merge(runtime, branch)).merged.written == ["c.txt"]
        assert not (repository / "b.txt").exists()


@pytest.mark.slow
async def test_a_branch_of_a_branch_is_merged_into_its_parent(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(["Hello.", calls(write("b.txt", "b1\n")), "One.", calls(write("c.txt", "c\n")), "Two."],
                 ["write_file"])  # fmt: skip
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        outer = await branched(runtime)
        inner = await branched(runtime, outer)
        made = await merge(runtime, inner)
        assert Path(made.folder) == await place_of(runtime, outer)
        assert (await place_of(runtime, outer) / "c.txt").read_text() == "c\n"
        assert not (repository / "c.txt").exists()
        assert (await merge(runtime, outer)).merged.written == ["b.txt", "c.txt"]


@pytest.mark.slow
async def test_the_agent_of_the_folder_learns_what_a_merge_changed(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare([calls(read("a.txt")), "Read.", calls(write("a.txt", "theirs\n")), "Wrote."],
                 ["read_file", "write_file"])  # fmt: skip
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        await merge(runtime, await branched(runtime))
        await runtime.send("talk", "continue")
        await runtime.run("talk")
        assert [one for one in await lines(runtime) if one.get("about") == "away" and "a.txt changed" in one["content"]]


@pytest.mark.slow
async def test_a_running_session_is_not_merged_into(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(["Hello.", calls(write("b.txt", "b1\n")), "One."], ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await branched(runtime)
        await runtime.send("talk", "continue")
        async with open_runtime(conversation.target, **own(tmp_path)) as other:
            holder = await acquire(other, await other.get("talk"))
            with pytest.raises(LeaseHeld, match="runs session talk in the folder to merge into"):
                await merge(runtime, branch)
            await other.store.write(sessions.release(holder))
        assert not (repository / "b.txt").exists()
        assert (await merge(runtime, branch)).merged.written == ["b.txt"]


async def test_an_impossible_merge_is_reported(conversation: Conversation, repository: Path, tmp_path: Path) -> None:
    conversation.declare(["Hello."], ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        with pytest.raises(ConfigError, match="not a branch"):
            await merge(runtime, "talk")
        branch = await runtime.fork("talk")
        with pytest.raises(IllegalMove, match="no folder here yet"):
            await merge(runtime, branch.id)
        await runtime.run(branch.id)


@pytest.mark.slow
async def test_a_rewind_checks_out_the_earlier_files_and_waits(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare([calls(write("b.txt", "b1\n")), calls(write("c.txt", "c\n")), "End.", "Yes."], ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        asked = len(conversation.model.requests)
        made = await rewind(runtime, "talk", to=await event_of(runtime, "tool"))
        assert made.problem is None
        work_folder = Path(made.folder or "")
        assert sorted(one.name for one in work_folder.iterdir() if one.name != ".git") == ["a.txt", "b.txt"]
        assert (repository / "c.txt").exists()
        assert made.session.status == "waiting"
        assert made.outside == []
        assert len(conversation.model.requests) == asked
        await runtime.run(made.session.id)
        assert len(conversation.model.requests) == asked  # however often it is run
        await runtime.send(made.session.id, "another way")
        await runtime.run(made.session.id)
        assert [turn.text for turn in conversation.turns_shown() if "rewound the work to event" in turn.text]


@pytest.mark.slow
async def test_a_rewind_starts_at_the_commit_of_the_event(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        subprocess.run(["git", "config", name, value], cwd=repository, check=True)
    script = [calls(read("a.txt")), calls(write("b.txt", "b\n")), calls(("git_commit", {"message": "B"})), "End."]
    conversation.declare(script,
                 ["read_file", "write_file", "git_commit"])  # fmt: skip

    def head(folder: Path) -> str:
        words = ["git", "log", "-1", "--format=%s"]
        return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        made = await rewind(runtime, "talk", to=await event_of(runtime, "tool", 1))
        assert (head(repository), head(Path(made.folder or ""))) == ("B", "begin")
        assert [one.tool for one in made.outside] == ["git_commit"]


@pytest.mark.slow
async def test_an_open_call_is_not_made_by_a_rewind(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare([calls(write("b.txt", "b1\n")), "End.", "Yes."], ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        made = await rewind(runtime, "talk", to=await event_of(runtime, "assistant"))
        assert not (Path(made.folder or "") / "b.txt").exists()
        (told,) = [one for one in await lines(runtime, made.session.id) if one["role"] == "tool"]
        assert told["status"] == "not started"
        begun = [one.number async for one in runtime.events("talk") if one.kind == "effect.dispatched"]
        made = await rewind(runtime, "talk", to=begun[0])
        (told,) = [one for one in await lines(runtime, made.session.id) if one["role"] == "tool"]
        assert (told["status"], "acknowledged" in told["content"]) == ("unknown", True)
        assert not [one async for one in runtime.effects(session=made.session.id, tool="write_file")]


@pytest.mark.slow
async def test_a_rewind_lists_outside_effects_and_which_can_be_undone(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    @perdure.tool(replay="idempotent")
    def post(text: str) -> str:
        return text

    @perdure.tool(replay="idempotent")
    def book(room: int) -> str:
        return f"booked {room}"

    @book.undo
    def _(result: str | None, room: int) -> None: ...

    conversation.declare(
        [calls(("post", {"text": "early"})), calls(("post", {"text": "late"}), ("book", {"room": 7})), "End."],
        [post, book, "read_file"],
    )
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        made = await rewind(runtime, "talk", to=await event_of(runtime, "tool"))
        found = {one.tool: one for one in made.outside}
        assert {tool: (one.arguments, one.undo) for tool, one in found.items()} == {
            "post": ({"text": "late"}, False),
            "book": ({"room": 7}, True),
        }
        (note,) = [one for one in await lines(runtime, made.session.id) if one.get("about") == "rewound"]
        assert "late" in note["content"]
        assert "early" not in note["content"]
        await runtime.undo(found["book"].effect, by="ada", because="wrong night")
        made = await rewind(runtime, "talk", to=await event_of(runtime, "tool"))
        assert [one.tool for one in made.outside] == ["post"]


async def test_only_agent_events_can_be_rewound_to(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare(["Hello."], [])

    @perdure.program
    async def plain(s: perdure.Session) -> int:
        return 1

    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        for number, said in ((1, "The transcript is empty"), (99, "no event 99")):
            with pytest.raises(ConfigError, match=said):
                await rewind(runtime, "talk", to=number)
        session = await runtime.start(plain.bind())
        with pytest.raises(ConfigError, match="does not belong to an agent"):
            await rewind(runtime, session.id, to=1)


@pytest.mark.slow
async def test_the_files_of_any_two_events_can_be_compared(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    script = [calls(write("b.txt", "b\n")), calls(write("c.txt", "c\n")), "End.", calls(write("d.txt", "d\n")), "D."]
    conversation.declare(script, ["write_file"])

    def files(text: str) -> list[str]:
        return [line.split(" b/")[-1] for line in text.splitlines() if line.startswith("diff ")]

    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        first, second = await event_of(runtime, "tool"), await event_of(runtime, "tool", 1)
        branch = await branched(runtime)
        assert files((await diff(runtime, "talk")).text) == ["b.txt", "c.txt"]
        assert files((await diff(runtime, "talk", last=first)).text) == ["b.txt"]
        assert files((await diff(runtime, "talk", first=first, last=second)).text) == ["c.txt"]
        assert files((await diff(runtime, branch)).text) == ["d.txt"]
        assert files((await diff(runtime, branch, parent=True)).text) == ["d.txt"]
        assert "2 files changed" in (await diff(runtime, "talk", stat=True)).text
        with pytest.raises(NotFound, match="has no snapshot at event"):
            await diff(runtime, "talk", first=1)
        with pytest.raises(ConfigError, match="not a branch"):
            await diff(runtime, "talk", parent=True)


@pytest.mark.slow
async def test_pruning_keeps_the_snapshots_of_every_event_only(
    conversation: Conversation, repository: Path, tmp_path: Path
) -> None:
    conversation.declare([calls(write("b.txt", "b\n")), "One.", calls(write("c.txt", "c\n")), "Two."], ["write_file"])
    async with open_runtime(conversation.target, **own(tmp_path)) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await branched(runtime)
        await merge(runtime, branch)
        shots = Snapshots(repository, await home(runtime, repository))
        (repository / "lost.txt").write_text("not in a kept snapshot\n")
        unnamed = shots.take("not kept")
        (repository / "lost.txt").unlink()
        shots.take("again without it")
        done = await prune(runtime, grace=0)
        assert [one.missing for one in done.values()] == [()]
        with pytest.raises(NotFound):
            shots.files(unnamed.commit)
        for name in ("talk", branch):
            assert (await diff(runtime, name)).text
        again = await rewind(runtime, "talk", to=await event_of(runtime, "tool"))
        assert (Path(again.folder or "") / "b.txt").read_text() == "b\n"
        assert (await merge(runtime, branch)).merged.written == []
