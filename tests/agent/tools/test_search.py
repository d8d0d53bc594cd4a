"""Searching."""

import os
from pathlib import Path

import pytest

from perdure.agent.tools import search
from perdure.agent.tools.search import search_files
from perdure.errors import NotDone
from tests.agent.support.tool_calls import run_git


def fill(work_folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (work_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (work_folder / name).write_text(text)


def test_matches_are_named_by_path_and_line(work_folder: Path) -> None:
    fill(work_folder, {"src/a.py": "x = 1\ny = 22\n", "b.txt": "y = 3\n"})
    said = search_files(r"y = \d\b")
    assert said.text.splitlines() == ["1 matches in 1 files", "b.txt:1: y = 3"]
    assert search_files(r"\d\d", "src").text.splitlines()[1:] == ["src/a.py:2: y = 22"]
    assert search_files("y", "src/a.py").text.splitlines()[1:] == ["src/a.py:2: y = 22"]
    assert search_files("nowhere").text == "0 matches in 0 files"


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("**/c.py", ["src/deep/c.py"]),
        ("*.{py,md}", ["a.py", "d.md", "src/b.py", "src/deep/c.py"]),
        ("src/**", ["src/b.py", "src/deep/c.py"]),
        ("[", []),
    ],
)
def test_a_glob_selects_files(glob: str, names: list[str], work_folder: Path) -> None:
    fill(work_folder, dict.fromkeys(["a.py", "src/b.py", "src/deep/c.py", "d.md", "e.txt"], "word"))
    assert [line.split(":")[0] for line in search_files("word", glob=glob).text.splitlines()[1:]] == names


def test_ignored_binary_and_outside_files_are_left_out(work_folder: Path) -> None:
    run_git(work_folder, "init", "--quiet")
    fill(work_folder, {".gitignore": "*.log\n", "a.log": "secret\n", "kept/x": "secret\n", "a.bin": "secret\0"})
    (work_folder / "link.txt").symlink_to(work_folder.parent / "outside/secret.txt")
    (work_folder / "out").symlink_to(work_folder.parent / "outside")
    os.mkfifo(work_folder / "pipe")
    assert search_files("secret").text == "0 matches in 0 files"
    with pytest.raises(NotDone):
        search_files("secret", "out")


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "(?P<", "(" * 5000 + ")" * 5000])
def test_a_bad_pattern_is_reported(pattern: str, work_folder: Path) -> None:
    fill(work_folder, {"a": "x"})
    with pytest.raises(NotDone, match="not a regular expression"):
        search_files(pattern)


@pytest.mark.slow
def test_a_pattern_that_takes_too_long_is_stopped(work_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SECONDS", 0.5)
    fill(work_folder, {"a.txt": "aaa here\n", "b.txt": "a" * 60 + "!\n"})
    said = search_files("(a+)+(b| h)")
    assert "was stopped" in said.text
    assert "a.txt:1: aaa here" in said.text


def test_matches_and_lines_are_bounded(work_folder: Path) -> None:
    fill(work_folder, {"many.txt": "word\n" * 1000, "wide.txt": "x" * 5000 + "needle" + "y" * 5000})
    assert len(search_files("word").text.splitlines()) == 201
    said = search_files("needle")
    assert "needle" in said.text
    assert len(said.text) < 500


def test_a_file_name_is_never_treated_as_an_option(work_folder: Path) -> None:
    fill(work_folder, {"-rf": "word", "a\nb": "word"})
    assert search_files("--help").text == "0 matches in 0 files"
    assert "2 matches" in search_files("word").text
