"""Branches for a kill sweep: a fork that works, a merge, a rewind, in a repository of its own.

Each trial is judged by what it leaves: the files of the person and of both branches, the person's repository byte for
byte, one session for each branch, and no half worktree.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from perdure import Agent, faults
from perdure.agent.files.branch import snapshot_folder, storage_folder
from perdure.agent.files.worktree import Worktree
from perdure.control.branches.files import run_until_idle
from perdure.control.branches.merge import merge
from perdure.control.branches.rewind import rewind
from perdure.domain.session import TERMINAL
from perdure.runtime.definitions.program import Bound
from perdure.runtime.definitions.tool import TOOLS as TOOLS_HERE
from perdure.runtime.queries import SessionView
from perdure.runtime.run.large_values import Values
from perdure.runtime.runtime import Runtime
from perdure.testing import ScriptedModel
from perdure.testing.sweep.trial import Person
from tests.agent.support.agent_sweep import REPOSITORIES, TEMPLATE, repository
from tests.agent.support.conversation import calls
from tests.agent.support.git_repository import CALLS, photograph
from tests.agent.support.git_repository import repository as make_repository

SCRIPT: list[Any] = [
    calls(("write_file", {"path": "made.txt", "content": "made\n"})),
    calls(("read_file", {"path": "a.txt"}), ("read_file", {"path": "src/c.py"})),
    "Made.",
    calls(
        ("edit_file", {"path": "a.txt", "old": "one", "new": "two"}),
        ("write_file", {"path": "deep/in/here.txt", "content": "new\n"}),
    ),
    "Changed.",
]
for _tool in ("open_worktree", "merge_branch", "write_file", "edit_file"):
    TOOLS_HERE[_tool].inflight = 20_000  # the folders are on this disk: nothing is in flight for long
brancher = Agent("brancher", model=ScriptedModel(SCRIPT), tools=["write_file", "edit_file", "read_file"], policy=None)


def make_template(folder: Path) -> None:
    work = make_repository(folder / TEMPLATE / "work")
    hook = work / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch ../hooked\n")
    hook.chmod(0o755)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Without kill points: what is done here is swept elsewhere."""
    handler = faults._handler
    faults.disarm()
    try:
        yield
    finally:
        if handler is not None:
            faults.arm(handler)


@contextmanager
def every_change_of_files() -> Iterator[None]:
    """Make each call that changes files, and each start of git, a kill point too."""

    def around(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def count_runs(*args: Any, **kwargs: Any) -> Any:
            faults.point(f"os.{name}")
            return real(*args, **kwargs)

        return count_runs

    class CountedProcess(subprocess.Popen[Any]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            faults.point("os.git")

    before, popen = {name: getattr(os, name) for name in CALLS}, subprocess.Popen
    for name, real in before.items():
        setattr(os, name, around(name, real))
    subprocess.Popen = CountedProcess  # type: ignore[misc]
    try:
        yield
    finally:
        subprocess.Popen = popen  # type: ignore[misc]
        for name, real in before.items():
            setattr(os, name, real)


async def run_branches(runtime: Runtime, bound: Bound[Any], name: str, _: Person) -> list[SessionView]:
    """Fork and work, merge, rewind to an earlier event; and return what that left."""
    folder = repository()
    runtime.values = Values(runtime.store, folder.parent / "artifacts")
    with undisturbed():
        original = await runtime.start(bound, id=name, repository=folder)
        original = await run_until_idle(runtime, original.uid)
        said = [one async for one in runtime.events(name) if one.kind == "message" and "merge" not in one.body]
        first, last = said[2].number, said[-1].number
    with every_change_of_files():
        branch = await runtime.fork(original.uid, at=last, id=f"{name}.b")
        await runtime.send(branch.uid, "another way", message_id="m-1")
        if not [one async for one in runtime.events(branch.uid) if one.kind == "inbox.received"][1:]:
            branch = await run_until_idle(
                runtime, branch.uid
            )  # an order that is there already is finished by the next merge
        await merge(runtime, branch.uid)
        await merge_ended(runtime, original, last, f"{name}.e")
        back = (await rewind(runtime, original.uid, to=first, id=f"{name}.r")).session
    with undisturbed():
        result = await left(runtime, folder, [branch, back])
    return [msgspec.structs.replace(original, result=result)]


async def merge_ended(runtime: Runtime, original: SessionView, last: int, id: str) -> None:
    """Merge a branch that was cancelled after a file in it was changed by hand."""
    with undisturbed():
        branch = await runtime.fork(original.uid, at=last, id=id)
        if branch.status not in TERMINAL:
            branch = await run_until_idle(runtime, branch.uid)
            (home,) = [one async for one in runtime.effects(session=branch.uid, tool="open_worktree")]
            (Path((home.result or "").strip('"')) / "by-hand.txt").write_text("by hand\n")
            await runtime.cancel(branch.uid)
            branch = await runtime.run(branch.uid)
    await merge(runtime, branch.uid)


async def left(runtime: Runtime, folder: Path, branches: list[SessionView]) -> dict[str, Any]:
    """What is in every folder, and what differs in the person's repository."""
    home = snapshot_folder(str(folder), storage_folder(runtime))
    assert home is not None
    records = {path: msgspec.json.decode(path.read_bytes(), type=Worktree) for path in home.glob("worktrees/*.json")}
    places = {one.branch: Path(os.fsdecode(one.folder)) for one in records.values() if one.is_ready}
    own = [one.id async for one in runtime.sessions(repository=str(folder))]
    said = [[event.body async for event in runtime.events(one.id) if event.kind == "message"] for one in branches]
    bodies = [event.body async for event in runtime.events(own_of(own)) if event.kind == "message"]
    told = sorted(str(body["content"]).rpartition(": ")[2] for body in bodies if "merge" in body)
    waits = [{wait.kind for wait in (await runtime.get(one.uid)).waits} for one in branches]
    did = {(one.tool, one.state) for branch in branches async for one in runtime.effects(session=branch.uid)}
    return {
        "person": files(folder),
        "branches": [files(places[one.uid]) for one in branches],
        "half worktrees": sorted(path.name for path in (home / "worktrees").glob("[!.]*"))[2 * len(places) :],
        "entries": len(list((folder / ".git" / "worktrees").iterdir())),
        "repository": changed(folder),
        "hooked": (folder.parent / "hooked").exists() or (home / "hooked").exists(),
        "sessions": sorted(
            {id.rpartition(".")[2].rpartition("-")[0] or id.rpartition(".")[2] for id in own if "." in id}
        ),
        "said": [meaning(lines) for lines in said],
        "told at home": told,
        "waits": [sorted(kinds) for kinds in waits],
        "effects": sorted(f"{tool} {state}" for tool, state in did),
    }


def own_of(ids: list[str]) -> str:
    """The session from which all others were branched."""
    return min(ids, key=len)


def meaning(said: list[dict[str, Any]]) -> list[str]:
    """The messages, without notes on crashes and without orders: a merge may be requested again."""
    kept = [
        one for one in said if one.get("about") not in ("away", "performed") and not isinstance(one["content"], dict)
    ]
    return [f"{one['role']} {one.get('status') or ''}" for one in kept]


def files(folder: Path) -> dict[str, str]:
    kept = photograph(folder, without=(".git",))
    return {name: f"{mode:o} {content.decode()}" for name, (mode, content) in sorted(kept.items()) if name != ".git"}


def changed(folder: Path) -> list[str]:
    """The files of the person's .git that are not as in the template; worktrees have a line of their own."""
    base = Path(os.environ[REPOSITORIES]) / TEMPLATE / "work"
    before, now = (photograph(one / ".git", without=("worktrees",)) for one in (base, folder))
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
