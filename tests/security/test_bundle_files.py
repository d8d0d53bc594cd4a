"""Packs that no honest export makes are refused, and nothing of them reaches the store of snapshots."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.agent.files.snapshot import Snapshots
from perdure.agent.files.transfer import snapshot_unpack
from perdure.agent.files.transfer.clone import without_credentials
from perdure.agent.files.transfer.snapshot_unpack import take_in
from perdure.errors import BundleInvalid
from perdure.interchange.git_pack import PackLimits, check_pack
from perdure.interchange.session_files import PackedFiles, SessionFiles
from tests.agent.support.git_repository import PERSON, sweep


class Forge:
    """A git dir in which anything can be made."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "forge"
        self.path.mkdir()
        self.git("init", "-q", "--bare", ".")

    def git(self, *words: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.path, input=stdin, env=os.environ | PERSON, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=content)

    def tree(self, *entries: tuple[str, str, str]) -> str:
        content = b"".join(f"{mode} {name}".encode() + b"\0" + bytes.fromhex(one) for mode, name, one in entries)
        return self.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=content)

    def commit(self, tree: str, *parents: str) -> str:
        words = [word for one in parents for word in ("-p", one)]
        return self.git("commit-tree", tree, *words, "-m", "forged")

    def pack(self, commit: str, *, without: tuple[str, ...] = ()) -> PackedFiles:
        listed = self.git("rev-list", "--objects", "--no-object-names", commit).split()
        stdin = "\n".join(one for one in listed if one not in without).encode() + b"\n"
        name = self.git("pack-objects", "-q", "made", stdin=stdin)
        about = SessionFiles(object_format="sha1", snapshots=[commit])
        return PackedFiles(about, self.path / f"made-{name}.pack")


@pytest.fixture
def forge(folder: Path) -> Forge:
    return Forge(folder)


def take_pack(snapshots: Snapshots, files: PackedFiles) -> None:
    take_in(snapshots, files.about, files.pieces())


def refuse(folder: Path, files: PackedFiles) -> None:
    (folder / "mine").mkdir()
    snapshots = Snapshots(folder / "mine", folder / "home")
    first = snapshots.take("first")
    with pytest.raises(BundleInvalid):
        take_pack(snapshots, files)
    assert snapshots.take("second").commit == first.commit
    left = [one.name for one in (folder / "home" / "git" / "objects" / "pack").glob("*")]
    assert (left, list((folder / "home").glob("import-*"))) == ([], [])


TREES: dict[str, Callable[[Forge], str]] = {
    ".git": lambda f: f.tree(("40000", ".git", f.tree(("100644", "config", f.blob(b"[core]"))))),
    ".GIT": lambda f: f.tree(("40000", ".GIT", f.tree(("100644", "config", f.blob(b"[core]"))))),
    "..": lambda f: f.tree(("40000", "..", f.tree(("100644", "x", f.blob(b"x"))))),
    "slash": lambda f: f.tree(("100644", "../x", f.blob(b"x"))),
    "absolute": lambda f: f.tree(("100644", "/etc/x", f.blob(b"x"))),
    "twice": lambda f: f.tree(("120000", "d", f.blob(b"/etc")), ("40000", "d", f.tree(("100644", "x", f.blob(b"x"))))),
    "long": lambda f: f.tree(("100644", "n" * 256, f.blob(b"x"))),
    "staging": lambda f: f.tree(("120000", ".perdure-restore", f.blob(b"/etc"))),
    "empty link": lambda f: f.tree(("120000", "x", f.blob(b""))),
    "long link": lambda f: f.tree(("120000", "x", f.blob(b"x" * 4096))),
    "link with a zero byte": lambda f: f.tree(("120000", "x", f.blob(b"x\0y"))),
    "device": lambda f: f.tree(("20000", "x", f.blob(b"x"))),
}


@pytest.mark.parametrize("name", TREES)
def test_impossible_paths_are_refused(folder: Path, forge: Forge, name: str) -> None:
    refuse(folder, forge.pack(forge.commit(TREES[name](forge))))


def test_a_small_pack_that_fills_a_disk_is_refused(folder: Path, forge: Forge) -> None:
    tree = forge.tree(*(("100644", f"f{n}", forge.blob(b"x" * 1000)) for n in range(10)))
    for _ in range(7):
        tree = forge.tree(*(("40000", f"d{n}", tree) for n in range(10)))
    refuse(folder, forge.pack(forge.commit(tree)))


@pytest.mark.parametrize("nested", [True, False])
def test_many_folders_without_files_are_refused(folder: Path, forge: Forge, nested: bool) -> None:
    tree = forge.tree(("160000", "inner", "1" * 40)) if nested else forge.tree()
    for _ in range(20):
        tree = forge.tree(("40000", "a", tree), ("40000", "b", tree))
    refuse(folder, forge.pack(forge.commit(tree)))


def test_repeated_folders_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[object] = []
    monkeypatch.setattr(snapshot_unpack, "_check", counted.append)
    empty, *above = (snapshot_unpack.TreeListing(9, 0, array("I", below)) for below in ([], [0] * 9, [1] * 9))
    snapshot_unpack._check_size(2, [empty, *above], {})
    assert counted == [(9, 0, 1), (90, 0, 2), (819, 0, 3)]


def test_deep_folders_are_refused(folder: Path, forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_unpack, "DEEPEST", 5)
    tree = forge.tree(("100644", "x", forge.blob(b"x")))
    for _ in range(6):
        tree = forge.tree(("40000", "d", tree))
    refuse(folder, forge.pack(forge.commit(tree)))


def test_missing_objects_and_histories_are_refused(folder: Path, forge: Forge) -> None:
    blob = forge.blob(b"x")
    root = forge.commit(forge.tree(("100644", "x", blob)))
    refuse(folder, forge.pack(root, without=(blob,)))
    (folder / "mine").rmdir()
    refuse(folder, forge.pack(forge.commit(forge.tree(("100644", "x", blob)), root)))


def test_links_and_nested_repositories_stay_harmless(folder: Path, forge: Forge) -> None:
    tree = forge.tree(
        ("160000", "inner", forge.commit(forge.tree())), ("120000", "out", forge.blob(b"/etc")),
        ("100644", "x", forge.blob(b"x\n")),
    )  # fmt: skip
    commit = forge.commit(tree)
    (folder / "mine").mkdir()
    snapshots = Snapshots(folder / "mine", folder / "home")
    take_pack(snapshots, forge.pack(commit))
    snapshots.check_out(commit)
    assert ((folder / "mine" / "out").is_symlink(), list((folder / "mine" / "inner").iterdir())) == (True, [])


def packed(*objects: bytes, count: int | None = None) -> bytes:
    body = b"PACK" + (2).to_bytes(4, "big") + (len(objects) if count is None else count).to_bytes(4, "big")
    body += b"".join(objects)
    return body + hashlib.sha1(body).digest()


def entry(kind: int, size: int, content: bytes, before: bytes = b"") -> bytes:
    header, size, low = b"", size >> 4, size & 15
    byte = kind << 4 | low
    while size:
        header, byte, size = header + bytes([byte | 0x80]), size & 0x7F, size >> 7
    return header + bytes([byte]) + before + zlib.compress(content)


def varint(number: int) -> bytes:
    made = b""
    while number > 0x7F:
        made, number = made + bytes([number & 0x7F | 0x80]), number >> 7
    return made + bytes([number])


LIMITS = PackLimits(objects=10, object=1 << 20, total=3 << 20)
DELTA = varint(10) + varint(1 << 40) + b"\x90"


@pytest.mark.parametrize(
    "content",
    [
        b"", b"PACK", packed(count=1), packed(count=11), packed() + b"more", packed(entry(3, 5, b"four")),
        packed(entry(3, 3, b"four")), packed(entry(3, 1 << 40, b"x")), packed(entry(3, 1 << 21, b"x" * (1 << 21))),
        packed(*[entry(3, 1 << 20, bytes(1 << 20))] * 4), packed(entry(7, len(DELTA), DELTA, bytes(20))),
        packed(entry(6, len(DELTA), DELTA, b"\x80\x01")), packed(entry(5, 1, b"x")), packed(b"\xff" * 40),
        packed(entry(3, 4, b"four")[:-3]),
    ],
)  # fmt: skip
def test_a_pack_beyond_the_limits_is_refused(content: bytes) -> None:
    with pytest.raises(BundleInvalid):
        check_pack(iter([content[:7], content[7:]] if content else []), "sha1", LIMITS)


def test_an_ordinary_pack_is_read_to_its_end(forge: Forge) -> None:
    tree = forge.tree(*(("100644", f"f{n}", forge.blob(b"some text\n" * 1000 + bytes([n]))) for n in range(10)))
    files = forge.pack(forge.commit(tree))
    for size in (1, 7, 1 << 20):
        content = files.pack.read_bytes()
        pieces = iter([content[at : at + size] for at in range(0, len(content), size)])
        assert check_pack(pieces, "sha1") == 12


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://ada:secret@example.org/x.git", "https://example.org/x.git"),
        ("https://token@example.org:8443/x.git?key=1#y", "https://example.org:8443/x.git"),
        ("ssh://git:pw@example.org/x.git", "ssh://example.org/x.git"),
        ("git@example.org:ada/x.git", "ssh://example.org/ada/x.git"),
        ("/home/ada/x.git", None), ("file:///home/ada/x", None), ("ext::sh -c x", None), ("https://[bad", None),
    ],
)  # fmt: skip
def test_addresses_of_remotes_have_no_credentials(address: str, shown: str | None) -> None:
    assert without_credentials(address) == shown


@pytest.mark.slow
def test_an_import_of_files_killed_at_any_moment_can_be_repeated(folder: Path, forge: Forge) -> None:
    commit = forge.commit(forge.tree(("100644", "x", forge.blob(b"x\n")), ("120000", "y", forge.blob(b"x"))))
    files = forge.pack(commit)
    (folder / "mine").mkdir()

    def act(number: int) -> Callable[[], object]:
        return lambda: take_pack(Snapshots(folder / "mine", folder / f"home-{number}"), files)

    def check(number: int) -> None:
        snapshots = Snapshots(folder / "mine", folder / f"home-{number}")
        take_pack(snapshots, files)
        assert [one.path for one in snapshots.files(commit)] == ["x", "y"]
        assert snapshots.read(commit, "x") == b"x\n"
        assert not list((folder / f"home-{number}").glob("import-*"))

    assert sweep(act, check) > 20
