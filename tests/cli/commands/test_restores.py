"""Leases, undo, restores and large arguments on the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.support.terminal import Terminal

APP = str(Path(__file__).parents[1] / "support" / "branch_programs.py")


@pytest.fixture
def branches(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("PERDURE_APP", APP)
    return terminal


@pytest.mark.slow
def test_holder_of_a_lease_is_shown_to_the_waiting_session(branches: Terminal) -> None:
    branches.arm()
    branches.process("run", "branch_pushes", f"folder={branches.folder}", "--id", "first")
    assert branches("resume", "first").code == 3  # the outcome of the push is unknown
    (effect,) = branches("effects", "--in-doubt", "--json").lines
    said = branches("run", "branch_pushes", f"folder={branches.folder}", "--id", "second")
    assert said.code == 3
    assert f"branch:main, which session first holds until its effect {effect['id']} is settled" in said.out
    assert "lease: branch:main, held by first" in branches("ls").out
    (plan,) = branches("resume", "second", "--plan", "--json").lines
    assert plan["action"] == "wait for lease"
    branches("settle", effect["id"], "--happened", "--result", '"pushed main"', "--because", "it is there")
    assert branches("resume", "second").code == 0


def test_effect_is_undone_by_a_command(branches: Terminal) -> None:
    assert branches("run", "branch_books", f"folder={branches.folder}", "--id", "b").code == 3
    (effect,) = branches("effects", "--json").lines
    booked = Path(branches.folder, "booked")
    assert booked.exists()
    assert branches("undo", effect["id"]).code == 2  # a reason is needed
    said = branches("undo", effect["id"][:6], "--because", "wrong day")
    assert (said.code, "was undone" in said.out) == (0, True)
    assert not booked.exists()
    assert branches("resume", "b").out.endswith("never mind\n")
    late = branches("undo", effect["id"], "--because", "again")
    assert (late.code, "can no longer be undone" in late.err) == (1, True)


def test_large_arguments_are_short_in_a_table_and_whole_in_json(branches: Terminal) -> None:
    branches("run", "branch_books", f"folder={branches.folder}", "length=70000", "--id", "b")
    assert "large: artifact" in branches("effects").out
    (effect,) = branches("effects", "--json").lines
    assert len(effect["intent"]["note"]) == 70_000


def put_back(terminal: Terminal) -> None:
    """Run two sessions and put the store of the first one back."""
    terminal("run", "branch_books", f"folder={terminal.folder}", "--id", "a")
    (path,) = terminal.folder.rglob("perdure.db")
    shutil.copy(path, path.with_name("backup"))
    terminal("run", "branch_books", f"folder={terminal.folder}", "--id", "b")
    assert "No restore of this store is recorded." in terminal("restores").out
    path.with_name(path.name + "-wal").unlink(missing_ok=True)
    shutil.copy(path.with_name("backup"), path)


def test_doctor_and_restores_report_a_restore_before_the_first_write(branches: Terminal) -> None:
    put_back(branches)
    for _ in range(2):  # looking records nothing
        said = branches("doctor")
        assert (said.code, "was set back to an earlier state" in said.out) == (1, True)
        assert "nothing wrong" not in said.out
        (found,) = branches("restores", "--json").lines
        assert (found["epoch"], found["cause"], found["recorded"]) == (1, "witness", False)
        assert "not recorded" in branches("restores").out
    branches("run", "branch_books", f"folder={branches.folder}", "--id", "c")
    (found,) = branches("restores", "--json").lines
    assert (found["epoch"], found["cause"], found["recorded"]) == (1, "witness", True)


def test_restore_is_released(branches: Terminal) -> None:
    put_back(branches)
    branches("run", "branch_books", f"folder={branches.folder}", "--id", "c")
    assert "perdure restores --release --because TEXT" in branches("doctor").out
    assert branches("restores", "--release").code == 2
    said = branches("restores", "--release", "--because", "looked at every booking")
    assert (said.code, "by ada" in said.out) == (0, True)
    assert "set back" not in branches("doctor").out


def test_restore_is_declared_with_a_reason(branches: Terminal) -> None:
    branches("run", "branch_books", f"folder={branches.folder}", "--id", "a")
    for wrong in (("--declare",), ("--because", "x"), ("--declare", "--release", "--because", "x")):
        assert branches("restores", *wrong).code == 2
    (found,) = branches("restores", "--declare", "--because", "the disk of Monday", "--json").lines
    assert (found["cause"], found["detail"], found["released_at"]) == ("declared", "ada: the disk of Monday", None)
    assert "a user declared it" in branches("doctor").out
    assert branches("restore").code == 2  # reserved: it will put a backup back
