"""Reading and listing."""

import os
import socket
from pathlib import Path

import pytest

from perdure.agent.files.workspace import Workspace, here
from perdure.agent.tools.files import list_files, read_file
from perdure.agent.tools.result import LIMIT, ToolResult, text_result
from perdure.errors import ConfigError, NotDone
from perdure.ids import digest
from perdure.store.store import open_store
from tests.agent.support.tool_calls import run_git


def test_reading_returns_numbered_lines_and_the_digest(work_folder: Path) -> None:
    content = "".join(f"line {n}\n" for n in range(1, 1001))
    (work_folder / "a.txt").write_text(content)
    said = read_file("a.txt", offset=10, limit=2)
    assert said.text.splitlines() == [
        f"a.txt: 1000 lines, {len(content)} bytes; lines 10 to 11",
        "    10\tline 10",
        "    11\tline 11",
    ]
    assert said.read == {"a.txt": digest(content)}
    assert said.origin == "file:a.txt"


def test_one_file_has_one_name_for_every_spelling(work_folder: Path) -> None:
    (work_folder / "src").mkdir()
    (work_folder / "src/a.txt").write_text("x")
    (work_folder / "link").symlink_to("src/a.txt")
    for name in ("src/a.txt", "./src//a.txt", "src/../src/a.txt", "link", str(work_folder / "src/a.txt")):
        assert read_file(name).read == {"src/a.txt": digest("x")}


def test_a_missing_file_is_recorded_as_missing(work_folder: Path) -> None:
    assert read_file("none.txt") == ToolResult("There is no file none.txt.", read={"none.txt": None}, failed=True)
    assert read_file("no/where/none.txt").failed


def test_a_large_file_is_limited_and_its_lines_counted(work_folder: Path) -> None:
    (work_folder / "big.txt").write_text("".join(f"{n:060}\n" for n in range(20_000)))
    said = read_file("big.txt", limit=20_000)
    assert len(said.text) < LIMIT + 200
    assert "20000 lines" in said.text
    last = int(said.text.splitlines()[-1].split("\t")[0])
    assert f"lines 1 to {last}" in said.text
    assert f"{last + 1:6}\t" in read_file("big.txt", offset=last + 1, limit=1).text


def test_a_very_long_line_is_cut(work_folder: Path) -> None:
    (work_folder / "min.js").write_text("x" * 3_000_000)
    said = read_file("min.js")
    assert "[3000000 characters]" in said.text
    assert len(said.text) < 3000


def test_binary_content_is_reported_and_escaped(work_folder: Path) -> None:
    (work_folder / "image").write_bytes(b"\x89PNG\0\x1b[2J" * 100)
    (work_folder / "latin").write_bytes(b"caf\xe9\n\x1b[31mred\n")
    said = read_file("image")
    assert "binary file of 900 bytes" in said.text
    assert said.text.isprintable() or "\x1b" not in said.text
    assert said.read == {"image": digest((work_folder / "image").read_bytes())}
    said = read_file("latin")
    assert "not UTF-8" in said.text
    assert "caf\\xe9" in said.text
    assert "\\x1b[31mred" in said.text


def test_an_empty_file_and_a_large_offset_are_reported(work_folder: Path) -> None:
    (work_folder / "empty").write_text("")
    assert "0 lines, 0 bytes; none" in read_file("empty").text
    (work_folder / "short").write_text("one")
    assert "1 lines, 3 bytes; none from line 5 on" in read_file("short", offset=5).text
    with pytest.raises(NotDone, match="offset"):
        read_file("short", offset=0)


@pytest.mark.parametrize(
    "path",
    ["..", "../outside/secret.txt", "/etc/passwd", "out/secret.txt", "out", "a\0b", ".git/config", "kept/x", "loop"],
)
def test_nothing_outside_is_read(path: str, work_folder: Path) -> None:
    (work_folder / "out").symlink_to(work_folder.parent / "outside")
    (work_folder / "loop").symlink_to("loop")
    (work_folder / ".git").mkdir()
    (work_folder / ".git/config").write_text("secret")
    (work_folder / "kept").mkdir()
    (work_folder / "kept/x").write_text("secret")
    for tool in (read_file, list_files):
        with pytest.raises(NotDone):
            tool(path)


def test_another_name_of_the_open_store_is_not_read(work_folder: Path) -> None:
    """Closing it would release the locks that SQLite holds on it for this process."""
    with open_store(store := work_folder.parent / "perdure.db"):
        os.link(store, work_folder / "link")
        with pytest.raises(NotDone, match="another name of a file of the store"):
            read_file("link")


def test_files_that_block_forever_are_refused(work_folder: Path) -> None:
    os.mkfifo(work_folder / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(work_folder / "sock"))
        for name in ("pipe", "sock", ".", "x/" * 3000, "y" * 300, "half\ud800"):
            with pytest.raises(NotDone):
                read_file(name)


def test_unicode_names_are_read(work_folder: Path) -> None:
    (work_folder / "naïve 日本.txt").write_text("ok")
    assert "ok" in read_file("naïve 日本.txt").text
    assert "naïve 日本.txt" in list_files().text


def test_a_listing_leaves_out_ignored_and_deleted_files(repository: Path) -> None:
    (repository / ".gitignore").write_text("*.log\nbuild/\n")
    (repository / "build").mkdir()
    (repository / "build/out").write_text("")
    (repository / "x.log").write_text("")
    (repository / "new.txt").write_text("")
    (repository / "a.txt").unlink()
    assert list_files().text.splitlines() == ["2 files", ".gitignore", "new.txt"]


@pytest.mark.parametrize("tracked", [True, False])
def test_a_listing_counts_deeper_files(tracked: bool, work_folder: Path) -> None:
    if tracked:
        run_git(work_folder, "init", "--quiet")
    for name in ("a/b/c/one", "a/b/c/two", "a/b/three", "a/four", "five"):
        (work_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (work_folder / name).write_text("")
    assert list_files().text.splitlines() == ["5 files", "a/b/ (3 files)", "a/four", "five"]
    assert list_files("a", depth=1).text.splitlines() == ["4 files", "a/b/ (3 files)", "a/four"]
    assert list_files("none").failed


def test_a_repository_above_the_folder_is_not_used(folder: Path) -> None:
    run_git(folder, "init", "--quiet")
    (folder / ".gitignore").write_text("*\n")
    inner = folder / "inner"
    inner.mkdir()
    (inner / "x").write_text("")
    with Workspace(inner, session_uid="u").active():
        assert list_files().text.splitlines() == ["1 files", "x"]


def test_a_list_is_bounded(work_folder: Path) -> None:
    for n in range(700):
        (work_folder / f"{n}.txt").write_text("")
    assert "[200 more entries" in list_files().text


def test_long_text_is_cut_and_stored_whole(work_folder: Path) -> None:
    whole = "word\n" * 20_000
    said = text_result(whole, origin="command:x")
    assert len(said.text) < LIMIT
    assert "[cut:" in said.text
    artifacts = here().artifacts
    assert artifacts is not None
    assert said.artifact is not None
    assert artifacts.get(said.artifact) == whole.encode()


def test_a_tool_without_a_folder_is_refused() -> None:
    with pytest.raises(ConfigError):
        read_file("a.txt")
