"""The disk after a cut: replays a log of operations and builds every state a power loss could have left.

Owns the operations, the replay and the sweep; `power_loss.py` records the log and lists what the model assumes. Never
reads the recorded folder, a clock, or randomness other than its seed: the same log and seed build the same disks.
"""

import math
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from tests.memory import MEMORY

SECTOR = 512
FOLDER = 0  # the inode that stands for every folder


@dataclass(frozen=True, slots=True)
class Name:
    """A change of names: a creation has no `old`, a deletion no `new`, a rename both and is never half done."""

    old: str | None
    new: str | None
    inode: int = FOLDER

    @property
    def folder(self) -> str:
        return os.path.dirname(self.new if self.new is not None else self.old or "")


@dataclass(frozen=True, slots=True)
class Write:
    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    """A file's sync that returned: it covers the operations numbered below `covers`, those done before it began."""

    inode: int
    covers: int


@dataclass(frozen=True, slots=True)
class SyncFolder:
    path: str
    covers: int


@dataclass(frozen=True, slots=True)
class Mark:
    label: str


Op = Name | Write | Truncate | Sync | SyncFolder | Mark


@dataclass
class Log:
    """Operations in order; those before `begin` describe the disk as it was found, and no cut falls among them."""

    ops: list[Op] = field(default_factory=list)
    begin: int = 0

    @property
    def cuts(self) -> range:
        """Every prefix of the log, by its length."""
        return range(self.begin, len(self.ops) + 1)


class _File:
    """One inode: its content for the running program, its content if the power went now, and what lies between."""

    def __init__(self) -> None:
        self.live = bytearray()
        self.durable = bytearray()
        self.pending: list[tuple[int, Write | Truncate]] = []

    def change(self, number: int, op: Write | Truncate) -> None:
        _apply(self.live, op)
        self.pending.append((number, op))

    def sync(self, covers: int) -> None:
        for number, op in self.pending:
            if number < covers:
                _apply(self.durable, op)
        self.pending = [(number, op) for number, op in self.pending if number >= covers]

    def some(self, chance: random.Random) -> bytearray:
        """The durable content with a random part of what was not synced, some of it torn."""
        content = bytearray(self.durable)
        odds = chance.choice((0.25, 0.5, 0.75, 0.95))
        for _, op in self.pending:
            if chance.random() < odds:
                _apply(content, _torn(op, chance) if chance.random() < 0.25 else op)
        return content


Image = dict[str, bytes | bytearray | None]  # by path; None is a folder


class DiskState:
    """The whole disk at one prefix of a log. `apply` moves it forward by one operation; it never goes back."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self._files: dict[int, _File] = {}
        self._live: dict[str, int] = {}
        self._durable: dict[str, int] = {}
        self._pending: list[tuple[int, Name]] = []

    def apply(self, number: int, op: Op) -> None:
        match op:
            case Name():
                _rename(self._live, op)
                self._pending.append((number, op))
            case Write() | Truncate():
                self._file(op.inode).change(number, op)
            case Sync():
                self._file(op.inode).sync(op.covers)
            case SyncFolder():
                done = [(at, name) for at, name in self._pending if at < op.covers and name.folder == op.path]
                for _, name in done:
                    _rename(self._durable, name)
                self._pending = [entry for entry in self._pending if entry not in done]
            case Mark():
                self.marks.append(op.label)

    def all(self) -> Image:
        return _image(self._live, lambda inode: self._file(inode).live)

    def synced(self) -> Image:
        return _image(self._durable, lambda inode: self._file(inode).durable)

    def some(self, chance: random.Random) -> Image:
        names = dict(self._durable)
        odds = chance.choice((0.25, 0.5, 0.75, 1.0))
        for _, name in self._pending:
            if chance.random() < odds:
                _rename(names, name)
        return _image(names, lambda inode: self._file(inode).some(chance))

    def _file(self, inode: int) -> _File:
        return self._files.setdefault(inode, _File())


@dataclass
class Report:
    """What a sweep found. `lost` and `corrupt` count distinct states; each failure begins with the state's label."""

    states: int = 0
    distinct: int = 0
    lost: int = 0
    corrupt: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = f"{self.states:,} states, {self.distinct:,} distinct, {self.lost} lost, {self.corrupt} corrupt"
        return f"power loss: {counts}" + (f"; first: {self.failures[0]}" if self.failures else "")


Check = Callable[[Path, list[str], str], str | None]


def sweep(log: Log, check: Check, *, states: int = 2000, seed: int = 0) -> Report:
    """Build at least `states` disks from the log and check each distinct one.

    `check(folder, marks, label)` gets a disk of its own that it may change, and every mark made before the cut. It
    returns None, or a sentence about what was lost; whatever it raises counts as corrupt. It closes what it opens. Two
    states are equal when the files *and* the marks are: the same disk owes more once more was acknowledged.
    Every prefix is cut when `states >= 3 * len(log.cuts)`; below that, a seeded sample of the prefixes.
    """
    report, seen, disk_state = Report(), set[bytes](), DiskState()
    plan = _plan(log, states, seed)
    with tempfile.TemporaryDirectory(prefix="powerloss-", dir=MEMORY) as scratch:
        for number in range(len(log.ops) + 1):
            for label, image in _disks(disk_state, number, plan.get(number, 0), seed):
                report.states += 1
                key = _digest(image, len(disk_state.marks))
                if key not in seen:
                    seen.add(key)
                    _judge(report, check, _build(image, Path(scratch, "disk")), list(disk_state.marks), label)
            if number < len(log.ops):
                disk_state.apply(number, log.ops[number])
    report.distinct = len(seen)
    return report


def rebuild(log: Log, label: str, folder: Path, *, seed: int = 0) -> list[str]:
    """Build the one disk a failure names, to inspect it; returns its marks."""
    number, disk_state = int(label.split()[1]), DiskState()
    for at, op in enumerate(log.ops[:number]):
        disk_state.apply(at, op)
    variants = int(label.split()[3]) + 2 if " some " in label else 2
    _build(dict(_disks(disk_state, number, variants, seed))[label], folder)
    return disk_state.marks


def _plan(log: Log, states: int, seed: int) -> dict[int, int]:
    """How many disks to build after each prefix."""
    each = max(3, math.ceil(states / len(log.cuts)))
    wanted = min(math.ceil(states / each), len(log.cuts))
    return dict.fromkeys(random.Random(f"{seed} cuts").sample(log.cuts, wanted), each)


def _disks(disk_state: DiskState, number: int, variants: int, seed: int) -> Iterator[tuple[str, Image]]:
    if variants:
        yield f"cut {number} all", disk_state.all()
        yield f"cut {number} synced", disk_state.synced()
    for variant in range(1, variants - 1):
        label = f"cut {number} some {variant}"
        yield label, disk_state.some(random.Random(f"{seed} {label}"))


def _judge(report: Report, check: Check, folder: Path, marks: list[str], label: str) -> None:
    try:
        loss = check(folder, marks, label)
    except Exception as error:
        report.corrupt += 1
        report.failures.append(f"{label}: corrupt: {error!r}")
    else:
        if loss is not None:
            report.lost += 1
            report.failures.append(f"{label}: lost: {loss}")


def _image(names: dict[str, int], content: Callable[[int], bytearray]) -> Image:
    """The files by path, without those whose folder is not there."""
    image: Image = {}
    for path in sorted(names):
        parent = os.path.dirname(path)
        if not parent or parent in image:
            image[path] = None if names[path] == FOLDER else content(names[path])
    return image


def _digest(image: Image, marks: int) -> bytes:
    digest = sha256(str(marks).encode())
    for path, content in image.items():
        digest.update(f"\0{path}\0{'folder' if content is None else len(content)}\0".encode())
        digest.update(content or b"")
    return digest.digest()


def _build(image: Image, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path, content in image.items():
        if content is None:
            Path(folder, path).mkdir()
        else:
            Path(folder, path).write_bytes(content)
    return folder


def _rename(names: dict[str, int], op: Name) -> None:
    if op.old is not None:
        names.pop(op.old, None)
    if op.new is not None:
        names[op.new] = op.inode


def _apply(content: bytearray, op: Write | Truncate) -> None:
    offset = op.offset if isinstance(op, Write) else op.size
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if isinstance(op, Write):
        content[offset : offset + len(op.data)] = op.data
    else:
        del content[offset:]


def _torn(op: Write | Truncate, chance: random.Random) -> Write | Truncate:
    """The same write, ended at one of the sector boundaries inside it."""
    if isinstance(op, Truncate):
        return op
    cuts = range(SECTOR - op.offset % SECTOR, len(op.data), SECTOR)
    return Write(op.inode, op.offset, op.data[: chance.choice(cuts)]) if cuts else op
