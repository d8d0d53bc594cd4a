"""Live deltas: what is written of a model call while it lasts, and what a watcher makes of whatever is in a file."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from perdure.runtime.live_text import file as live_text
from perdure.runtime.live_text.delta import Delta, LiveTextHeader, RetryNotice
from perdure.runtime.live_text.file import LiveText, LiveTextReader
from perdure.store.store import Store

DIES = """
import sys, time
from pathlib import Path
from perdure.runtime.live_text.delta import LiveTextHeader
from perdure.runtime.live_text.file import LiveTextFile
writing = LiveTextFile(Path(sys.argv[1]), LiveTextHeader("c", 3))
writing.append("said")
print("said", flush=True)
time.sleep(60)
"""


@pytest.fixture
def deltas(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> LiveText:
    """As a worker leaves it: it has made the folder for its lock."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    made = LiveText(store)
    assert made.folder is not None
    made.folder.mkdir(parents=True)
    return made


pytestmark = pytest.mark.databases("sqlite")


def path_of(deltas: LiveText) -> Path:
    assert deltas.folder is not None
    return deltas.folder / "u"


def text_of(pieces: list[Delta]) -> str:
    return "".join(one.text for one in pieces)


@contextmanager
def locked(path: Path, content: bytes) -> Iterator[None]:
    """A file that is kept open, as a worker does."""
    path.write_bytes(content)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.databases("sqlite", "postgres")
def test_every_watcher_gets_each_piece_once_even_a_late_one(deltas: LiveText) -> None:
    first, second = LiveTextReader(deltas, "u"), LiveTextReader(deltas, "u")
    assert (first.poll(), LiveTextReader(deltas, "other").poll()) == ([], [])
    writing = deltas.begin("u", LiveTextHeader("c", 3))
    assert writing is not None
    writing.append("One ")
    assert first.poll() == [Delta("u", "c", 3, "One ")]
    assert first.poll() == []
    writing.append("two")
    assert (text_of(first.poll()), text_of(second.poll())) == ("two", "One two")
    writing.append(".")
    writing.close(recorded=True)
    assert not path_of(deltas).exists()
    assert (first.poll(), second.poll()) == ([Delta("u", "c", 3, ".")],) * 2  # what is left is not lost, nor broken off
    assert first.poll() == []


def test_text_that_is_not_recorded_is_reported_as_aborted_once(deltas: LiveText) -> None:
    writing, ear = deltas.begin("u", LiveTextHeader("c", 3)), LiveTextReader(deltas, "u")
    assert writing is not None
    writing.append("Half")
    assert text_of(ear.poll()) == "Half"
    writing.close(recorded=False)
    assert ear.poll() == [Delta("u", "c", 3, broke_off=True)]
    assert (ear.poll(), LiveTextReader(deltas, "u").poll()) == ([], [])
    again = deltas.begin("u", LiveTextHeader("d", 3))
    assert again is not None
    again.append("Whole")
    assert ear.poll() == [Delta("u", "d", 3, "Whole")]


def test_live_text_of_a_killed_process_is_reported_and_removed(deltas: LiveText) -> None:
    ear = LiveTextReader(deltas, "u")
    with Popen([sys.executable, "-c", DIES, str(path_of(deltas))], stdout=PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert ear.poll() == [Delta("u", "c", 3, "said")]
        deltas.sweep()
        assert path_of(deltas).exists()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert ear.poll() == [Delta("u", "c", 3, broke_off=True)]
    LiveText(deltas._store).sweep()
    assert not path_of(deltas).exists()


def test_a_character_that_arrives_in_two_parts_is_joined(deltas: LiveText) -> None:
    ear, path = LiveTextReader(deltas, "u"), path_of(deltas)
    character = "€".encode()
    with locked(path, b'{"call":"c","after":3}\n' + character[:1]):
        assert ear.poll() == []
        with path.open("ab") as file:
            file.write(character[1:])
        assert text_of(ear.poll()) == "€"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"garbage",
        b"\xff\xfe\n",
        b"[1]\n",
        b'{"call":1,"after":"x"}\n',
        b'{"call":"c","after":3}',
        b"{" * 99,
    ],
)
def test_a_file_without_a_header_is_skipped(deltas: LiveText, content: bytes) -> None:
    with locked(path_of(deltas), content):
        assert LiveTextReader(deltas, "u").poll() == []


def test_garbage_after_the_head_is_text_and_bounded(deltas: LiveText, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_text, "MOST", 100)
    ear = LiveTextReader(deltas, "u")
    with locked(path_of(deltas), b'{"call":"c","after":3}\n' + b"\xff\x00" * 500):
        heard = [text_of(ear.poll()) for _ in range(9)]
    assert heard[0].startswith("\ufffd\0")
    assert 0 < len("".join(heard)) <= 200


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_files_that_are_not_live_text_are_skipped(deltas: LiveText, kind: str) -> None:
    path = path_of(deltas)
    with locked(path.with_name("other"), b'{"call":"c","after":3}\nof another'):
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("other")
        assert LiveTextReader(deltas, "u").poll() == []


def test_nothing_is_written_beyond_the_bound_or_after_a_gap(deltas: LiveText, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_text, "MOST", 10)
    writing, ear = deltas.begin("u", LiveTextHeader("c", 3)), LiveTextReader(deltas, "u")
    assert writing is not None
    writing.append("12345")
    monkeypatch.setattr(live_text, "MOST", 1000)
    assert text_of(ear.poll()) == "12345"
    writing.append("a piece that is too long")
    writing.append("6")
    assert ear.poll() == []


@pytest.mark.databases("memory")
def test_a_store_in_memory_has_no_live_deltas(store: Store) -> None:
    deltas = LiveText(store)
    assert (deltas.folder, deltas.begin("u", LiveTextHeader("c", 0)), LiveTextReader(deltas, "u").poll()) == (
        None,
        None,
        [],
    )
    deltas.sweep()


def test_retry_is_read_from_the_header_while_it_lasts(deltas: LiveText) -> None:
    retry = RetryNotice(due_at=5, attempt=2, most=6, why="It is overloaded.", requested=True)
    file = deltas.begin("u", LiveTextHeader("c", 3, retry))
    assert file is not None
    reader = LiveTextReader(deltas, "u")
    assert reader.poll() == [Delta("u", "c", 3, retry=retry)]
    assert reader.poll() == []
    file.close(recorded=True)
    assert reader.poll() == []
    assert not path_of(deltas).exists()
