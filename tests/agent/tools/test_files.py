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
from tests.agent.tools.folder import run_git


def test_read_gives_numbered_lines_and_the_digest_of_the_whole(place: Path) -> None:
    content = "".join(f"line {n}\n" for n in range(1, 1001))
    (place / "a.txt").write_text(content)
    said = read_file("a.txt", offset=10, limit=2)
    assert said.text.splitlines() == [
        f"a.txt: 1000 lines, {len(content)} bytes; lines 10 to 11",
        "    10\tline 10",
        "    11\tline 11",
    ]
    assert said.read == {"a.txt": digest(content)}
    assert said.origin == "file:a.txt"


def test_one_file_has_one_name_however_it_is_said(place: Path) -> None:
    (place / "src").mkdir()
    (place / "src/a.txt").write_text("x")
    (place / "link").symlink_to("src/a.txt")
    for name in ("src/a.txt", "./src//a.txt", "src/../src/a.txt", "link", str(place / "src/a.txt")):
        assert read_file(name).read == {"src/a.txt": digest("x")}


def test_a_file_that_is_not_there_is_known_to_be_gone(place: Path) -> None:
    assert read_file("none.txt") == ToolResult("There is no file none.txt.", read={"none.txt": None}, failed=True)
    assert read_file("no/where/none.txt").failed


def test_a_large_file_is_bounded_and_counted(place: Path) -> None:
    (place / "big.txt").write_text("".join(f"{n:060}\n" for n in range(20_000)))
    said = read_file("big.txt", limit=20_000)
    assert len(said.text) < LIMIT + 200
    assert "20000 lines" in said.text
    last = int(said.text.splitlines()[-1].split("\t")[0])
    assert f"lines 1 to {last}" in said.text
    assert f"{last + 1:6}\t" in read_file("big.txt", offset=last + 1, limit=1).text


def test_one_endless_line_is_cut(place: Path) -> None:
    (place / "min.js").write_text("x" * 3_000_000)
    said = read_file("min.js")
    assert "[3000000 characters]" in said.text
    assert len(said.text) < 3000


def test_what_is_not_text_is_told_and_shown_harmlessly(place: Path) -> None:
    (place / "image").write_bytes(b"\x89PNG\0\x1b[2J" * 100)
    (place / "latin").write_bytes(b"caf\xe9\n\x1b[31mred\n")
    said = read_file("image")
    assert "binary file of 900 bytes" in said.text
    assert said.text.isprintable() or "\x1b" not in said.text
    assert said.read == {"image": digest((place / "image").read_bytes())}
    said = read_file("latin")
    assert "not UTF-8" in said.text
    assert "caf\\xe9" in said.text
    assert "\\x1b[31mred" in said.text


def test_an_empty_file_and_an_offset_beyond_the_end_are_told(place: Path) -> None:
    (place / "empty").write_text("")
    assert "0 lines, 0 bytes; none" in read_file("empty").text
    (place / "short").write_text("one")
    assert "1 lines, 3 bytes; none from line 5 on" in read_file("short", offset=5).text
    with pytest.raises(NotDone, match="offset"):
        read_file("short", offset=0)


@pytest.mark.parametrize(
    "path",
    ["..", "../outside/secret.txt", "/etc/passwd", "out/secret.txt", "out", "a\0b", ".git/config", "kept/x", "loop"],
)
def test_nothing_outside_is_read(path: str, place: Path) -> None:
    (place / "out").symlink_to(place.parent / "outside")
    (place / "loop").symlink_to("loop")
    (place / ".git").mkdir()
    (place / ".git/config").write_text("secret")
    (place / "kept").mkdir()
    (place / "kept/x").write_text("secret")
    for tool in (read_file, list_files):
        with pytest.raises(NotDone):
            tool(path)


def test_what_would_wait_for_ever_is_refused(place: Path) -> None:
    os.mkfifo(place / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(place / "sock"))
        for name in ("pipe", "sock", ".", "x/" * 3000, "y" * 300, "half\ud800"):
            with pytest.raises(NotDone):
                read_file(name)


def test_unicode_names_are_read(place: Path) -> None:
    (place / "naïve 日本.txt").write_text("ok")
    assert "ok" in read_file("naïve 日本.txt").text
    assert "naïve 日本.txt" in list_files().text


def test_a_list_leaves_out_what_git_ignores_and_what_is_gone(repository: Path) -> None:
    (repository / ".gitignore").write_text("*.log\nbuild/\n")
    (repository / "build").mkdir()
    (repository / "build/out").write_text("")
    (repository / "x.log").write_text("")
    (repository / "new.txt").write_text("")
    (repository / "a.txt").unlink()
    assert list_files().text.splitlines() == ["2 files", ".gitignore", "new.txt"]


@pytest.mark.parametrize("tracked", [True, False])
def test_a_list_counts_what_is_deeper(tracked: bool, place: Path) -> None:
    if tracked:
        run_git(place, "init", "--quiet")
    for name in ("a/b/c/one", "a/b/c/two", "a/b/three", "a/four", "five"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("")
    assert list_files().text.splitlines() == ["5 files", "a/b/ (3 files)", "a/four", "five"]
    assert list_files("a", depth=1).text.splitlines() == ["4 files", "a/b/ (3 files)", "a/four"]
    assert list_files("none").failed


def test_a_repository_above_the_folder_is_not_ours(folder: Path) -> None:
    run_git(folder, "init", "--quiet")
    (folder / ".gitignore").write_text("*\n")
    inner = folder / "inner"
    inner.mkdir()
    (inner / "x").write_text("")
    with Workspace(inner, session_uid="u").active():
        assert list_files().text.splitlines() == ["1 files", "x"]


def test_a_list_is_bounded(place: Path) -> None:
    for n in range(700):
        (place / f"{n}.txt").write_text("")
    assert "[200 more entries" in list_files().text


def test_long_text_is_cut_and_kept_whole(place: Path) -> None:
    whole = "word\n" * 20_000
    said = text_result(whole, origin="command:x")
    assert len(said.text) < LIMIT
    assert "[cut:" in said.text
    artifacts = here().artifacts
    assert artifacts is not None
    assert said.artifact is not None
    assert artifacts.get(said.artifact) == whole.encode()


def test_a_tool_without_a_folder_says_so() -> None:
    with pytest.raises(ConfigError):
        read_file("a.txt")
