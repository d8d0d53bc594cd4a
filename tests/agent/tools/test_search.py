"""Searching."""

import os
from pathlib import Path

import pytest

from perdure.agent.tools import search
from perdure.agent.tools.search import search_files
from perdure.errors import NotDone
from tests.agent.tools.folder import run_git


def fill(place: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)


def test_matches_are_named_by_path_and_line(place: Path) -> None:
    fill(place, {"src/a.py": "x = 1\ny = 22\n", "b.txt": "y = 3\n"})
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
def test_a_glob_picks_files(glob: str, names: list[str], place: Path) -> None:
    fill(place, dict.fromkeys(["a.py", "src/b.py", "src/deep/c.py", "d.md", "e.txt"], "word"))
    assert [line.split(":")[0] for line in search_files("word", glob=glob).text.splitlines()[1:]] == names


def test_what_git_ignores_or_is_binary_or_leads_outside_is_left_out(place: Path) -> None:
    run_git(place, "init", "--quiet")
    fill(place, {".gitignore": "*.log\n", "a.log": "secret\n", "kept/x": "secret\n", "a.bin": "secret\0"})
    (place / "link.txt").symlink_to(place.parent / "outside/secret.txt")
    (place / "out").symlink_to(place.parent / "outside")
    os.mkfifo(place / "pipe")
    assert search_files("secret").text == "0 matches in 0 files"
    with pytest.raises(NotDone):
        search_files("secret", "out")


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "(?P<", "(" * 5000 + ")" * 5000])
def test_a_bad_pattern_is_a_sentence(pattern: str, place: Path) -> None:
    fill(place, {"a": "x"})
    with pytest.raises(NotDone, match="not a regular expression"):
        search_files(pattern)


@pytest.mark.slow
def test_a_pattern_that_takes_for_ever_is_ended(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SECONDS", 0.5)
    fill(place, {"a.txt": "aaa here\n", "b.txt": "a" * 60 + "!\n"})
    said = search_files("(a+)+(b| h)")
    assert "was stopped" in said.text
    assert "a.txt:1: aaa here" in said.text


def test_matches_and_lines_are_bounded(place: Path) -> None:
    fill(place, {"many.txt": "word\n" * 1000, "wide.txt": "x" * 5000 + "needle" + "y" * 5000})
    assert len(search_files("word").text.splitlines()) == 201
    said = search_files("needle")
    assert "needle" in said.text
    assert len(said.text) < 500


def test_a_name_cannot_be_taken_for_an_option(place: Path) -> None:
    fill(place, {"-rf": "word", "a\nb": "word"})
    assert search_files("--help").text == "0 matches in 0 files"
    assert "2 matches" in search_files("word").text
