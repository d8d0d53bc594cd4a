"""Writing and editing: what is refused, what is preserved, and what the probe can tell."""

import os
import stat
from pathlib import Path

import pytest

from perdure import faults
from perdure.agent.files import safe_files
from perdure.agent.files.workspace import here
from perdure.agent.tools.files import read_file
from perdure.errors import ConfigError, NotDone
from perdure.ids import digest
from perdure.runtime.definitions.tool import TOOLS
from tests.agent.support.tool_calls import call, do, prepared, probe
from tests.forked import fork

HOSTILE = [
    "..", ".", "", "../outside/new.txt", "/tmp/perdure-new.txt", "out/new.txt", "out", "escape.txt", ".git/hooks/x",
    "sub/.git/hooks/x", ".git", ".GIT/hooks/x", "sub/.Git/x", "nul\0x",
    "x" * 300, "y/" * 3000 + "z", "kept/x", "kept", "folder", "pipe",
    "a.txt/below", "loop", "half\ud800",
]  # fmt: skip


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}


def test_a_new_file_is_written_with_its_folders(work_folder: Path) -> None:
    said = call("write_file", path="src/deep/näme.txt", content="one\ntwo\n")
    assert (work_folder / "src/deep/näme.txt").read_text() == "one\ntwo\n"
    assert said.read == {"src/deep/näme.txt": digest("one\ntwo\n")}
    assert said.changed
    assert said.text == "Wrote src/deep/näme.txt: 2 lines, 8 bytes."
    assert tree(work_folder).keys() == {"src/deep/näme.txt"}


def test_a_file_that_was_never_read_is_not_overwritten(work_folder: Path) -> None:
    (work_folder / "a.txt").write_text("mine")
    with pytest.raises(NotDone, match="read it first"):
        call("write_file", path="a.txt", content="theirs")
    call("write_file", read_file("./a.txt").read, path="a.txt", content="theirs")
    assert (work_folder / "a.txt").read_text() == "theirs"


def test_a_file_that_changed_since_it_was_read_is_left_alone(work_folder: Path) -> None:
    (work_folder / "a.txt").write_text("one")
    known = read_file("a.txt").read
    (work_folder / "a.txt").write_text("one, and what a person wrote")
    for name, more in (("write_file", {"content": "two"}), ("edit_file", {"old": "one", "new": "two"})):
        with pytest.raises(NotDone, match="changed since it was read"):
            call(name, known, path="a.txt", **more)
    (work_folder / "a.txt").unlink()
    with pytest.raises(NotDone, match="changed since it was read"):
        call("write_file", known, path="a.txt", content="two")
    call("write_file", known | read_file("a.txt").read, path="a.txt", content="two")


def test_a_file_that_changes_after_the_plan_is_left_alone(work_folder: Path) -> None:
    (work_folder / "a.txt").write_text("one")
    known = read_file("a.txt").read
    plans = {
        "write_file": prepared("write_file", {"path": "a.txt", "content": "two"}, known),
        "edit_file": prepared("edit_file", {"path": "a.txt", "old": "one", "new": "two"}, known),
    }
    (work_folder / "a.txt").write_text("what a person wrote")
    for name, arguments in plans.items():
        with pytest.raises(NotDone, match="changed meanwhile"):
            do(name, arguments)
        assert probe(name, arguments).said == "unknown"
    assert tree(work_folder) == {"a.txt": b"what a person wrote"}


def test_a_new_file_that_appears_meanwhile_is_left_alone(work_folder: Path) -> None:
    arguments = prepared("write_file", {"path": "a.txt", "content": "two"}, {})
    (work_folder / "a.txt").write_text("what a person wrote")
    with pytest.raises(NotDone, match="changed meanwhile"):
        do("write_file", arguments)
    assert tree(work_folder) == {"a.txt": b"what a person wrote"}


def test_an_edit_replaces_one_occurrence_or_all(work_folder: Path) -> None:
    (work_folder / "a.py").write_text("x = 1\ny = 1\nz = 2\n")
    with pytest.raises(NotDone, match="2 times"):
        call("edit_file", path="a.py", old="= 1", new="= 3")
    said = call("edit_file", path="a.py", old="x = 1\ny = 1", new="x = 5\ny = 1")
    assert said.text.splitlines() == ["Edited a.py.", "@@ -1,3 +1,3 @@", "-x = 1", "+x = 5", " y = 1", " z = 2"]
    assert said.read == {"a.py": digest((work_folder / "a.py").read_bytes())}
    call("edit_file", path="a.py", old=" = ", new="=", all=True)
    assert (work_folder / "a.py").read_text() == "x=5\ny=1\nz=2\n"


@pytest.mark.parametrize(
    ("old", "new", "all", "shown"),
    [
        (
            "line 50\n",
            "line 50\nmore\n",
            False,
            ["@@ -49,4 +49,5 @@", " line 49", " line 50", "+more", " line 51", " line 52"],
        ),
        (
            "e 7\n",
            "e seven\n",
            False,
            ["@@ -5,5 +5,5 @@", " line 5", " line 6", "-line 7", "+line seven", " line 8", " line 9"],
        ),
        ("line 1\n", "", False, ["@@ -1,3 +1,2 @@", "-line 1", " line 2", " line 3"]),
        ("line 99", "the end", True, ["@@ -97,3 +97,3 @@", " line 97", " line 98", "-line 99", "+the end"]),
    ],
)
def test_diff_of_an_edit_has_the_line_numbers_of_the_file(
    old: str, new: str, all: bool, shown: list[str], work_folder: Path
) -> None:
    file = work_folder / "a.txt"
    file.write_text("".join(f"line {number}\n" for number in range(1, 100)))
    arguments = prepared("edit_file", {"path": "a.txt", "old": old, "new": new, "all": all}, {})
    assert do("edit_file", arguments).text.splitlines() == ["Edited a.txt.", *shown]
    found = probe("edit_file", arguments)  # after a crash, with the new content only
    assert found.said == "happened"
    lines = found.result.text.splitlines()[1:]
    assert lines == (shown if new else ["-line 1"])


def test_diff_of_an_edit_in_a_huge_file_is_quick_and_bounded(work_folder: Path) -> None:
    (work_folder / "a.txt").write_text("x\n" * 100_000 + "end\n" + "x\n" * 100_000)
    assert call("edit_file", path="a.txt", old="end", new="END").text.splitlines()[1] == "@@ -99999,5 +99999,5 @@"
    lines = call("edit_file", path="a.txt", old="x", new="y", all=True).text.splitlines()
    assert lines[1] == "@@ -1,200001 +1,200001 @@"
    assert len(lines) == 122


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [("", "x", "Nothing would change"), ("one", "one", "Nothing would change"), ("none", "x", "does not occur")],
)
def test_an_edit_that_cannot_be_made_is_not_planned(old: str, new: str, why: str, work_folder: Path) -> None:
    (work_folder / "a.txt").write_text("one")
    with pytest.raises(NotDone, match=why):
        prepared("edit_file", {"path": "a.txt", "old": old, "new": new}, {})
    with pytest.raises(NotDone, match="no file"):
        prepared("edit_file", {"path": "none.txt", "old": "a", "new": "b"}, {})


def test_an_edit_leaves_other_bytes_and_line_ends_as_they_are(work_folder: Path) -> None:
    (work_folder / "a.txt").write_bytes(b"caf\xe9\r\none\r\ntwo\r\n")
    call("edit_file", path="a.txt", old="one\ntwo", new="1\n2\n3")
    assert (work_folder / "a.txt").read_bytes() == b"caf\xe9\r\n1\r\n2\r\n3\r\n"


def test_the_mode_of_a_file_and_links_are_preserved(work_folder: Path) -> None:
    (work_folder / "run.sh").write_text("one")
    (work_folder / "run.sh").chmod(0o751)
    (work_folder / "link").symlink_to("run.sh")
    said = call("edit_file", path="link", old="one", new="two")
    assert said.read.keys() == {"run.sh"}
    assert stat.S_IMODE((work_folder / "run.sh").stat().st_mode) == 0o751
    assert (work_folder / "link").is_symlink()
    assert (work_folder / "run.sh").read_text() == "two"


@pytest.mark.parametrize("path", HOSTILE)
def test_paths_outside_and_non_files_are_refused(path: str, work_folder: Path) -> None:
    (work_folder / "out").symlink_to(work_folder.parent / "outside")
    (work_folder / "escape.txt").symlink_to(work_folder.parent / "outside/new.txt")
    (work_folder / "loop").symlink_to("loop")
    for name in (".git/hooks", "sub/.git/hooks", "kept", "folder"):
        (work_folder / name).mkdir(parents=True)
    (work_folder / "a.txt").write_text("one")
    os.mkfifo(work_folder / "pipe")
    before = tree(work_folder.parent)
    with pytest.raises((NotDone, ConfigError)):
        call("write_file", path=path, content="planted")
    with pytest.raises((NotDone, ConfigError)):
        do("write_file", {"path": path, "content": "planted", "before": None})
    with pytest.raises((NotDone, ConfigError)):
        call("edit_file", path=path, old="secret", new="planted")
    if "\ud800" not in path:
        assert probe("write_file", {"path": path, "content": "planted", "before": None}).said in ("unknown", "absent")
    assert tree(work_folder.parent) == before
    assert not Path("/tmp/perdure-new.txt").exists()


def test_a_folder_that_becomes_a_link_is_not_followed(work_folder: Path) -> None:
    """A link replaces the path after the check: it must not be opened."""
    (work_folder / "src").mkdir()
    real = here().inside("src/new.txt")
    (work_folder / "src").rmdir()
    (work_folder / "src").symlink_to(work_folder.parent / "outside")
    with pytest.raises(NotDone):
        safe_files.replace(real, b"planted", None)
    with pytest.raises(NotDone):
        safe_files.digest_of(work_folder / "src/secret.txt")
    assert tree(work_folder.parent / "outside") == {"secret.txt": b"secret\n"}


@pytest.mark.parametrize("content", ["x" * 1_000_001, "half \ud800"])
def test_too_much_or_broken_content_is_refused(content: str, work_folder: Path) -> None:
    with pytest.raises((NotDone, ConfigError)):
        call("write_file", path="a.txt", content=content)
    assert tree(work_folder) == {}


def test_writing_twice_has_the_effect_of_once(work_folder: Path) -> None:
    (work_folder / "a.txt").write_text("one")
    arguments = prepared("edit_file", {"path": "a.txt", "old": "one", "new": "one one"}, {})
    assert probe("edit_file", arguments).said == "absent"
    first = do("edit_file", arguments)
    there = (work_folder / "a.txt").stat().st_ino
    assert do("edit_file", arguments) == first
    assert (work_folder / "a.txt").read_text() == "one one"
    assert (work_folder / "a.txt").stat().st_ino == there
    outcome = probe("edit_file", arguments)
    assert (outcome.said, outcome.result) == ("happened", first)


def test_an_attempt_removes_the_files_of_a_dead_one(work_folder: Path) -> None:
    arguments = prepared("write_file", {"path": "a.txt", "content": "one"}, {})

    def write_and_die() -> None:
        faults.arm(lambda name: os.kill(os.getpid(), 9) if name == "file.synced" else None)
        do("write_file", arguments)

    assert os.WIFSIGNALED(os.waitpid(fork(write_and_die), 0)[1])
    assert len(tree(work_folder)) == 1
    assert probe("write_file", arguments).said == "absent"
    do("write_file", arguments)
    assert tree(work_folder) == {"a.txt": b"one"}


def test_the_model_cannot_set_hidden_arguments(work_folder: Path) -> None:
    (work_folder / "a.txt").write_text("one")
    made = prepared("edit_file", {"path": "a.txt", "old": "one", "new": "two", "before": "x", "after": "y"}, {})
    assert (made["before"], made["after"]) == (digest("one"), digest("two"))
    with pytest.raises(NotDone):
        prepared("edit_file", {"path": "a.txt", "nonsense": 1}, {})
    with pytest.raises(ConfigError):
        TOOLS["write_file"].signature.bind((), {"path": "a.txt", "content": "forgot to prepare"})
