"""The group `snapshot`: what keeping a folder of 5,000 files costs, against the bare git commands that it needs."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Budget, Contestant, Line, Table, contest, figure, least
from perdure.agent.files import worktree
from perdure.agent.files.merge import merge_into
from perdure.agent.files.snapshot import Snapshots
from perdure.evaluation.measurement import BYTES, MILLISECONDS, p50

FILES, CHANGED, TIMES = 5_000, 10, 5


def tables(folder: Path, rounds: int) -> Iterator[Table]:
    yield Table("snapshots of 5,000 files in git", lines(folder, rounds))


def lines(folder: Path, rounds: int) -> Iterator[Line]:
    tree = Tree(folder / "tree")
    mine = Snapshots(tree.folder, folder / "home")
    yield figure("the first snapshot", MILLISECONDS, lambda: p50(lambda _: mine.take("first"), 1))
    first = mine.take("first")
    same = Contestant("nothing changed, to ls-files", lambda: p50(lambda _: mine.take("same"), TIMES))
    yield from contest(MILLISECONDS, lambda: p50(lambda _: tree.listed(), TIMES), [same], rounds=rounds)
    budget = Budget("≤", 0.050)
    yield figure(
        "nothing changed", MILLISECONDS, lambda: p50(lambda _: mine.take("same"), TIMES), budget, rounds=rounds
    )

    yield figure("ten files changed", MILLISECONDS, lambda: changed(mine, tree), Budget("≤", 0.080), rounds=3 * rounds)
    yield least("CPU, nothing changed", MILLISECONDS, lambda: cpu_of(lambda: mine.take("same")), rounds=4 * rounds)
    yield least("CPU, ten files changed", MILLISECONDS, lambda: cpu_of(lambda: tree.last(mine)), rounds=4 * rounds)
    yield figure("ten files restored", MILLISECONDS, lambda: restored(mine, first.tree, tree), rounds=rounds)
    last = tree.last(mine)
    yield figure("a diff of ten files", MILLISECONDS, lambda: p50(lambda _: mine.diff(first.tree, last), TIMES))
    yield figure("a worktree of its own", MILLISECONDS, lambda: added(mine, first.tree), rounds=min(rounds, 3))
    yield figure("ten files merged home", MILLISECONDS, lambda: merged(mine, tree, folder))
    yield figure("bytes per snapshot of ten files", BYTES, lambda: grown(mine, tree, folder / "home"))


class Tree:
    """A repository of many small files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._turn = 0
        for number in range(FILES):
            path = self.path(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"value = {number}\n" * 60)
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first")):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)

    def path(self, number: int) -> Path:
        return self.folder / f"package{number % 50}" / f"part{number % 7}" / f"module{number}.py"

    def listed(self) -> None:
        words = ("ls-files", "-z", "-o", "-m", "-d", "--exclude-standard")
        subprocess.run(["git", *words], cwd=self.folder, check=True, capture_output=True)

    def change(self) -> None:
        """Ten files in ten folders."""
        self._turn += 1
        for number in range(CHANGED):
            self.path(number).write_text(f"turn = {self._turn}\n" * 60)

    def last(self, mine: Snapshots) -> str:
        self.change()
        return mine.take("last").tree


def cpu_of(act: Callable[[], object]) -> float:
    """The processor time of an act and of the commands that it runs."""
    before = cpu_until_now()
    act()
    return cpu_until_now() - before


def cpu_until_now() -> float:
    both = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def changed(mine: Snapshots, world: Tree) -> float:
    world.change()
    return p50(lambda _: mine.take("ten files"), 1)


def restored(mine: Snapshots, tree: str, world: Tree) -> float:
    world.change()
    return p50(lambda _: mine.check_out(tree), 1)


def added(mine: Snapshots, tree: str) -> float:
    took = p50(lambda _: worktree.add(mine.folder, mine.home, "bench", snapshot=tree), 1)
    worktree.remove(mine.home, "bench")
    return took


def merged(mine: Snapshots, world: Tree, folder: Path) -> float:
    base = mine.take("base").tree
    place = worktree.add(mine.folder, mine.home, "merge", snapshot=base)
    for number in range(CHANGED):
        path = place / world.path(number).relative_to(world.folder)
        path.write_text("theirs\n" * 60)
    theirs = Snapshots(place, folder / "home").take("end").tree
    took = p50(lambda _: merge_into(mine, base=base, ours=base, theirs=theirs), 1)
    worktree.remove(mine.home, "merge")
    return took


def grown(mine: Snapshots, world: Tree, home: Path) -> float:
    before = size(home)
    for number in range(20):
        world.change()
        mine.take(f"grown {number}")
    return (size(home) - before) / 20


def size(folder: Path) -> int:
    return sum(os.lstat(os.path.join(root, name)).st_size for root, _, names in os.walk(folder) for name in names)
