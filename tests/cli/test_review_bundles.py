"""What a reviewer saw of bundles and stores: what they cost, what they leave, and who may read them."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import apsw
import pytest

from perdure.errors import BundleInvalid, StoreFull
from perdure.interchange import rows
from perdure.store.databases.sqlite.engine import translate
from perdure.store.store import open_store
from tests.cli.agents import Work
from tests.cli.terminal import Terminal
from tests.interchange.support.forged_bundles import content, with_manifest, write_folder

SIZE = 4 << 20


def test_rows_that_are_none_cost_no_more_than_they_are_long() -> None:
    content = b"\n" * SIZE
    tracemalloc.start()
    try:
        with pytest.raises(BundleInvalid):
            rows.read("event", content)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < SIZE


def test_a_bundle_that_is_refused_makes_no_store(terminal: Terminal, folder: Path) -> None:
    terminal("run", "desk_talk", "--id", "t")
    assert terminal("export", "t", "--to", "honest").code == 0
    forged = content(folder / "honest") | {"events.jsonl": b"{}\n"}
    write_folder(folder / "forged", with_manifest(forged))
    assert terminal("import", "forged", "--store", "new.db").code == 1
    assert not (folder / "new.db").exists()


def test_a_new_store_is_readable_for_its_owner_alone(terminal: Terminal, folder: Path) -> None:
    terminal("run", "desk_talk", "--id", "t")
    assert {(folder / name).stat().st_mode & 0o077 for name in ("perdure.db", "perdure.db.d")} == {0}


def test_the_umask_opens_no_new_store_and_the_rights_of_one_that_is_there_are_left(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        open_store(str(tmp_path / "a.db")).close()
        open_store(f"files:{tmp_path}/b").close()
        assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("a.db.d", "b")} == {0o700}
        with open_store(str(tmp_path / "a.db")):
            found = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("a.db*") if path.is_file()}
            assert found == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}
        for name, mode in (("a.db", 0o660), ("a.db.d", 0o770)):
            (tmp_path / name).chmod(mode)
        with open_store(str(tmp_path / "a.db")):
            found = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("a.db*")}
            assert found == {"a.db": 0o660, "a.db-wal": 0o660, "a.db-shm": 0o660, "a.db.d": 0o770}
    finally:
        os.umask(old)


def test_no_room_to_open_a_store_is_a_full_disk() -> None:
    assert isinstance(translate(apsw.exception_for(apsw.SQLITE_IOERR_SHMSIZE)), StoreFull)


@pytest.mark.parametrize("words", [("resume", "one"), ("attach", "one"), ("ls",)], ids=lambda words: words[0])
def test_whoever_looks_at_a_session_that_was_moved_away_is_told(words: tuple[str, ...], work: Work) -> None:
    assert work(*work.script("Done.")).code == 0
    assert work("export", "one", "--move", "--to", "one.zip").code == 0
    said = work(*words)
    assert any(word in said.out + said.err for word in ("moved", "sealed", "elsewhere"))


def test_a_session_that_was_moved_away_asks_nothing_of_anybody_here(work: Work) -> None:
    assert work(*work.script("Done.")).code == 0
    assert work("export", "one", "--move", "--to", "one.zip").code == 0
    for words in (("resume", "one"), ("resume", "one", "--plan"), ("attach", "one"), ("send", "one", "more")):
        said = work(*words)
        assert (said.code, said.out) == (1, "")
        assert "it was moved to another store on 20" in said.err
        assert "--take-back" in said.err
    assert "needs a person" not in work("ls").out
    assert "No session matches" in work("ls", "--waiting-for", "input").out
    assert "perdure send" not in work("show", "one").out + work("brief", "one").out
    assert work("resume", "--last").code == 1
    assert work("import", "one.zip", "--take-back").code == 0
    assert work("resume", "one").code == 0


def test_history_that_came_with_a_copy_is_not_said_to_have_been_moved_away(work: Work) -> None:
    assert work(*work.script("Done.")).code == 0
    assert work("export", "one", "--to", "one.zip").code == 0
    assert work("import", "one.zip", "--store", "other.db").code == 0
    (history,) = (one["id"] for one in work("ls", "--json", "--store", "other.db").lines if one["sealed_at"])
    said = work("resume", history, "--store", "other.db")
    assert (said.code, "was imported as the history of a copy" in said.err) == (1, True)


@pytest.mark.postgres
@pytest.mark.databases("postgres")
def test_whoever_misses_files_that_had_no_place_is_told_which_setting_gives_one(work: Work, target: str) -> None:
    assert work(*work.script("Done."), "--store", target).code == 0
    said = work("diff", "one", "--store", target)
    assert "artifacts" in said.out + said.err
    assert "`artifacts`" in work("fork", "one", "--store", target).out
