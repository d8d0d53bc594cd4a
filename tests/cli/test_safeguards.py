"""What a person sees and types about leases, undos, restores and large arguments."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal

APP = str(Path(__file__).with_name("branches.py"))


@pytest.fixture
def branches(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("PERDURE_APP", APP)
    return terminal


def test_who_holds_a_branch_is_shown_to_who_waits_for_it(branches: Terminal) -> None:
    branches.arm()
    branches.process("run", "branch_pushes", f"folder={branches.folder}", "--id", "first")
    assert branches("resume", "first").code == 3  # nobody knows what came of the push
    (effect,) = branches("effects", "--in-doubt", "--json").lines
    said = branches("run", "branch_pushes", f"folder={branches.folder}", "--id", "second")
    assert said.code == 3
    assert f"branch:main, which session first holds until its effect {effect['id']} is settled" in said.out
    assert "lease: branch:main, held by first" in branches("ls").out
    (plan,) = branches("resume", "second", "--plan", "--json").lines
    assert plan["action"] == "wait for lease"
    branches("settle", effect["id"], "--happened", "--result", '"pushed main"', "--because", "it is there")
    assert branches("resume", "second").code == 0


def test_an_effect_is_undone_by_a_command(branches: Terminal) -> None:
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
    assert (late.code, "no longer taken back" in late.err) == (1, True)


def test_large_arguments_are_named_in_a_table_and_whole_in_json(branches: Terminal) -> None:
    branches("run", "branch_books", f"folder={branches.folder}", "letters=70000", "--id", "b")
    assert "large: artifact" in branches("effects").out
    (effect,) = branches("effects", "--json").lines
    assert len(effect["intent"]["note"]) == 70_000


def test_a_store_that_was_put_back_is_listed_doctored_and_released(branches: Terminal) -> None:
    branches("run", "branch_books", f"folder={branches.folder}", "--id", "a")
    (path,) = branches.folder.rglob("perdure.db")
    shutil.copy(path, path.with_name("backup"))
    branches("run", "branch_books", f"folder={branches.folder}", "--id", "b")
    assert "never put back" in branches("restore").out
    path.with_name(path.name + "-wal").unlink(missing_ok=True)
    shutil.copy(path.with_name("backup"), path)
    branches("run", "branch_books", f"folder={branches.folder}", "--id", "c")
    (found,) = branches("restore", "--json").lines
    assert (found["cause"], found["released_at"]) == ("witness", None)
    assert "perdure restore --release --because TEXT" in branches("doctor").out
    assert branches("restore", "--release").code == 2
    said = branches("restore", "--release", "--because", "looked at every booking")
    assert (said.code, "by ada" in said.out) == (0, True)
    assert "put back" not in branches("doctor").out
