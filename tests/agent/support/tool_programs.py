"""Programs that write, edit, branch, commit and push, for processes that are killed; each trial has its own folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import perdure
from perdure import Session, program
from perdure.agent.files.workspace import Workspace, here, use_workspace
from perdure.agent.tools.commit import git_commit
from perdure.agent.tools.edit import edit_file, write_file
from perdure.agent.tools.git import git_branch
from perdure.agent.tools.push import git_push
from perdure.ids import digest
from perdure.testing.sink import WHERE
from perdure.testing.sweep.fork_process import Channel
from tests.agent.support.tool_calls import make_repository, prepared, run_git

ROOT = "PERDURE_SWEPT_ROOT"
WORKER = "PERDURE_SWEPT_WORKER"
SHORT = 20_000  # microseconds: what is local is dead when its processes are, which these tests prove
EFFECTS = (write_file, edit_file, git_branch, git_commit, git_push)


def make_template(root: Path) -> None:
    """What every life begins with."""
    make_repository(root / "template/place")
    run_git(root / "template/place", "remote", "set-url", "origin", "../place.remote")
    (root / "template/home").mkdir()
    (root / "template/home/.gitconfig").write_text(
        "[perdure]\n\thooks = trusted\n"
    )  # they kill the worker, from outside


def arrive() -> None:
    """A life comes to the folder of its trial, which the first one makes."""
    root = Path(os.environ[ROOT])
    arrive_at(root / digest(os.environ[WHERE])[:16], root)


def arrive_at(folder: Path, root: Path) -> None:
    if not folder.exists():
        shutil.copytree(root / "template", folder)
    os.environ |= {WORKER: str(os.getpid()), "PERDURE_ENVIRONMENT": WORKER, "HOME": str(root / "template/home")}
    for tool in EFFECTS:
        tool.inflight = SHORT
    use_workspace(Workspace(folder / "place", session_uid="swept"))


def live(_: Channel, *, folder: str, root: str, name: str) -> Any:
    """One run without a sink: start or resume a program, and run it to its end."""
    arrive_at(Path(folder), Path(root))
    return perdure.run(
        perdure.runtime.definitions.program.PROGRAMS[name].bind(), id="swept", store=Path(folder, "perdure.db"),
        policy=lambda _intent: "allow",  # the policy that ships asks about a push
    )  # fmt: skip


def state(work_folder: Path) -> dict[str, Any]:
    """What a trial left: the files, the commits, and what the remote has."""
    files = {
        str(path.relative_to(work_folder)): path.read_text()
        for path in sorted(work_folder.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }
    remote = work_folder.with_name("place.remote")
    return {
        "files": files,
        "branch": run_git(work_folder, "branch", "--show-current"),
        "commits": run_git(work_folder, "log", "--all", "--reflog", "--format=%s").splitlines(),
        "remote": run_git(remote, "log", "--all", "--format=%s").splitlines(),
        "refs": run_git(remote, "for-each-ref", "--format=%(refname)").splitlines(),
    }


def look() -> dict[str, Any]:
    return state(here().root)


async def ready(s: Session, tool: Any, known: dict[str, str | None] | None = None, **given: Any) -> dict[str, Any]:
    """The arguments, complete and recorded, as an agent records them with its plan."""
    return await s.step(f"prepare {tool.name}", prepared, tool.name, given, known or {})


@program
async def written(s: Session) -> dict[str, Any]:
    new = await s.do(write_file, **await ready(s, write_file, path="src/deep/new.txt", content="one\n"))
    await s.do(write_file, **await ready(s, write_file, new.read, path="src/deep/new.txt", content="two\n"))
    await s.do(edit_file, **await ready(s, edit_file, path="a.txt", old="one", new="one one"))
    return await s.step("look", look)


@program
async def committed(s: Session) -> dict[str, Any]:
    await s.do(write_file, **await ready(s, write_file, path="new.txt", content="one\n"))
    await s.do(git_branch, **await ready(s, git_branch, name="fix"))
    await s.do(git_commit, **await ready(s, git_commit, message="second", paths=["new.txt"]))
    return await s.step("look", look)


@program
async def pushed(s: Session) -> dict[str, Any]:
    await s.do(edit_file, **await ready(s, edit_file, path="a.txt", old="one", new="two"))
    await s.do(git_commit, **await ready(s, git_commit, message="second"))
    await s.do(git_push, **await ready(s, git_push))
    return await s.step("look", look)
