"""Workers killed around and inside a write, an edit, a branch, a commit and a push: each happens once, unasked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.testing import Sink
from perdure.testing.sweep.fork_process import FORKING
from perdure.testing.sweep.fork_server import ForkServer, fork_servers
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import Sweep
from tests.agent.support import tool_programs
from tests.agent.support.tool_calls import write_hook
from tests.seed import sample

APP = "tests.agent.support.tool_programs"
FIRST, BOTH = ["first"], ["second", "first"]
MAIN, FIX = {"branch": "main", "refs": ["refs/heads/main"]}, {"branch": "fix", "refs": ["refs/heads/main"]}
EXPECTED: dict[str, dict[str, Any]] = {
    "written": MAIN | {"files": {"a.txt": "one one\n", "src/deep/new.txt": "two\n"}, "commits": FIRST, "remote": FIRST},
    "committed": FIX | {"files": {"a.txt": "one\n", "new.txt": "one\n"}, "commits": BOTH, "remote": FIRST},
    "pushed": MAIN | {"files": {"a.txt": "two\n"}, "commits": BOTH, "remote": BOTH},
}


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    with Sink() as running:
        yield running


@pytest.fixture(scope="module")
def pool() -> Iterator[ServerPool]:
    with ServerPool(APP, count=2) as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with fork_servers(FORKING, apps=[APP]) as (running,):
        yield running


def around_acts(moments: list[str]) -> Iterable[int]:
    """Inside the acts, around them, and where what led to them is committed."""
    wanted = ("act", "probe", "file", "git", "commit.after")
    return sample((at for at, label in enumerate(moments, 1) if label.startswith(wanted)), 12)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_a_kill_at_any_moment_leaves_every_change_once(name: str, pool: ServerPool, sink: Sink, folder: Path) -> None:
    root = folder / "trials"
    tool_programs.make_template(root)
    bound = getattr(tool_programs, name).bind()
    sweep = Sweep(
        pool, bound, sink, folder, name=name, environment={tool_programs.ROOT: str(root)}, setup=tool_programs.arrive
    )
    report = sweep.run(choose=around_acts)
    assert report.failures == []
    assert report.kills > 3 * report.unreached
    trials = [one for one in root.iterdir() if one.name != "template"]
    assert len(trials) >= report.kills
    for trial in trials:
        assert tool_programs.state(trial / "place") == EXPECTED[name]
        assert [one.name for one in (trial / "place/.git").glob("*.lock") if one.name != "perdure.lock"] == []


INSIDE = [
    ("committed", "place/.git/hooks", "pre-commit", ""),
    ("committed", "place/.git/hooks", "commit-msg", ""),
    ("committed", "place/.git/hooks", "post-index-change", ""),
    ("committed", "place/.git/hooks", "post-checkout", ""),
    ("committed", "place/.git/hooks", "reference-transaction", "prepared"),
    ("committed", "place/.git/hooks", "reference-transaction", "committed"),
    ("committed", "place/.git/hooks", "post-commit", ""),
    ("pushed", "place/.git/hooks", "pre-push", ""),
    ("pushed", "place.remote/hooks", "pre-receive", ""),
    ("pushed", "place.remote/hooks", "reference-transaction", "committed"),
    ("pushed", "place.remote/hooks", "post-receive", ""),
]


@pytest.mark.slow
@pytest.mark.parametrize("git_dies", [False, True], ids=["git survives", "git dies too"])
@pytest.mark.parametrize(("name", "where", "hook", "state"), INSIDE)
def test_a_kill_inside_git_leaves_every_change_once(
    name: str, where: str, hook: str, state: str, git_dies: bool, server: ForkServer, folder: Path
) -> None:
    """The hooks of git are where it can be met half-way: they kill the worker, and git itself if it is to die too."""
    tool_programs.make_template(folder)
    script = [
        f'[ -z "{state}" ] || [ "$1" = "{state}" ] || exit 0',
        f'[ -e "{folder}/killed" ] && exit 0',
        f'touch "{folder}/killed"',
        f"kill -9 ${tool_programs.WORKER}",
        "kill -9 $PPID" if git_dies and "remote" not in where else "exit 0",
    ]
    write_hook(folder / "template" / where / hook, "\n".join(script) + "\n")
    told = {"folder": str(folder / "trial"), "root": str(folder), "name": name}
    assert server.run(tool_programs.live, timeout=180, **told).killed
    ended = server.run(tool_programs.live, timeout=180, **told)
    assert ended.error is None
    assert ended.result == EXPECTED[name]
    assert tool_programs.state(folder / "trial/place") == EXPECTED[name]
