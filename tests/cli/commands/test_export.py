"""Sessions that travel, as a person sends and receives them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from perdure.store.moves import inbox, session
from perdure.store.store import open_store
from perdure.testing.proxy import wait_until
from tests.cli.support.pseudo_terminal import PseudoTerminal
from tests.cli.support.repositories import call, make_repository, work, write
from tests.cli.support.terminal import Terminal

REVIEW, OTHER = "review-7", ("--store", "other.db")


@pytest.fixture
def review(terminal: Terminal) -> Terminal:
    """A review that asks whether to merge, and has posted its comment."""
    assert terminal.run("user_review", REVIEW).code == 3
    return terminal


def posted(terminal: Terminal) -> int:
    return len((terminal.folder / "posted").read_text().splitlines())


@pytest.mark.slow
def test_copy_is_exported_imported_and_continues_beside_its_original(review: Terminal) -> None:
    said = review("export", REVIEW)
    assert (said.code, said.err) == (0, "")
    assert (
        f"{review.folder / 'review-7.zip'} contains session review-7: 17 events, 1 effect, 0 artifacts.\n" in said.out
    )
    assert "`perdure import review-7.zip` imports it into another store.\n" in said.out
    came = review("import", "review-7.zip", *OTHER)
    assert "Session review-7 is a copy of review-7 at event 17. The original is kept as history.\n" in came.out
    assert "Run `perdure resume review-7 --store other.db` to continue it.\n" in came.out
    assert review("import", "review-7.zip", *OTHER).out.startswith("Session review-7 exists already; nothing changed.")
    assert review("resume", REVIEW, *OTHER).code == 3
    assert review("answer", REVIEW, "no", *OTHER).code == 0
    assert review("resume", REVIEW, *OTHER).out.endswith("6 no\n")
    assert review("verify", *OTHER).out.startswith("2 sessions, ")
    assert (review("show", REVIEW, "--json").json["session"]["status"], posted(review)) == ("waiting", 1)


def test_moved_session_is_sealed_and_continues_elsewhere(review: Terminal) -> None:
    said = review("export", REVIEW, "--move", "--to", "a-folder", "--by", "grace")
    assert (
        "The session is sealed here and continues where the bundle is imported. Import it in one place only.\n"
        in said.out
    )
    assert json.loads(Path("a-folder/manifest.json").read_text())["by"] == "grace"
    refused = review("answer", REVIEW, "no")
    assert (refused.code, "is sealed here" in refused.err) == (1, True)
    came = review("import", "a-folder", *OTHER)
    assert came.out.startswith("Session review-7 continues here, from event 18.\n")
    assert review("answer", REVIEW, "no", *OTHER).code == 0
    assert review("resume", REVIEW, *OTHER).out.endswith("6 no\n")
    assert posted(review) == 1
    back = review("export", REVIEW, "--move", "--to", "back.zip", *OTHER)
    assert back.code == 0
    assert review("import", "back.zip").out.startswith("Session review-7 continues here, from event ")
    assert review("show", REVIEW, "--json").json["session"]["result"] == "6 no"


def test_move_can_be_taken_back(review: Terminal) -> None:
    assert review("export", REVIEW, "--move").code == 0
    refused = review("import", "review-7.zip")
    assert (refused.code, "[conflict]" in refused.err, "--take-back" in refused.err) == (1, True, True)
    assert review("import", "review-7.zip", "--take-back").code == 0
    assert review("answer", REVIEW, "no").code == 0


def test_export_and_import_print_json(review: Terminal) -> None:
    done = review("export", REVIEW, "--to", "x.zip", "--json").json
    kept = {"path", "mode", "session", "copy", "sha256", "manifest_sha256", "counts", "notes", "signed_with"}
    assert done.keys() == kept
    assert (done["mode"], done["session"]["id"], done["session"]["cursor"]) == ("copy", REVIEW, 17)
    came = review("import", "x.zip", "--id", "mine", "--json").json
    assert (came["session"]["uid"], came["session"]["id"], came["changed"]) == (done["copy"], "mine", True)
    assert review("import", "x.zip", "--json").json["changed"] is False


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("export", "unknown"), "not-found", "There is no session"),
        (("export", REVIEW, "--to", "no/where.zip"), "not-found", "There is no folder"),
        (("export", REVIEW, "--to", "perdure.db"), "conflict", "is there already"),
        (("import", "nothing.zip"), "not-found", "There is no bundle"),
        (("import", "perdure.db"), "bundle-invalid", "cannot be read"),
        (("import", "empty"), "bundle-invalid", "no manifest.json"),
        (("import", "t.zip"), "conflict", "--id NEW"),
        (("import", "t.zip", "--id", "a b"), "config", "not a valid name"),
    ],
)
def test_export_error_is_one_message_with_a_code(
    words: tuple[str, ...], code: str, says: str, review: Terminal
) -> None:
    assert review("export", REVIEW, "--to", "t.zip").code == 0
    (review.folder / "empty").mkdir()
    said = review(*words)
    assert (said.code, f"[{code}]" in said.err, says in said.err) == (2 if code == "config" else 1, True, True), (
        said.err
    )


def test_import_of_another_file_creates_no_store(terminal: Terminal) -> None:
    (terminal.folder / "x.zip").write_bytes(b"PK")
    assert terminal("import", "x.zip").code == 1
    assert [path.name for path in terminal.folder.iterdir()] == ["x.zip"]


@pytest.mark.slow
def test_running_session_is_not_moved(terminal: Terminal) -> None:
    running = terminal.start("run", "user_held", f"folder={terminal.folder}", "--id", "held")
    try:
        held = terminal.folder / "held"
        wait_until(held.exists, "it stands in the middle of its act")
        said = terminal("export", "held", "--move")
        assert (said.code, "[lease-held]" in said.err) == (4, True)
        assert not (terminal.folder / "held.zip").exists()
        assert terminal("export", "held", "--json").json["mode"] == "copy"
        held.unlink()
        assert running.wait(60) == 0
    finally:
        running.kill()
        running.communicate()


def test_bundle_summary_is_escaped(terminal: Terminal) -> None:
    """No control code, no link, no picture, no heading that we did not write."""
    hostile = "\x1b[2J\u202e# Ignore this\n\n![x](http://evil)<script>|`~~~\n- [ ] \x07"
    assert terminal("run", "user_talk", "--id", "t-1", "--title", hostile).code == 3
    with open_store(terminal.folder / "perdure.db") as store:
        uid = store.read_now(session.get_by_id, "t-1").uid
        store.write_now(inbox.receive(uid, "ada", "m-1", hostile))
    assert terminal("export", "t-1", "--to", "t").code == 0
    page = Path("t/SUMMARY.md").read_text()
    assert all(line.isprintable() for line in page.splitlines())
    ours = [line for line in page.splitlines() if line.strip() and not line.startswith("    ")]
    assert ours == [
        "# A session of Perdure", "## What it is to do", "## What is open", "## Effects", "## The last 20 messages",
    ]  # fmt: skip
    assert "a message from ada is unread" in page
    assert json.loads(Path("t/manifest.json").read_text())["session"]["id"] == "t-1"


def elsewhere(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Another machine: it knows nothing of what this user exported."""
    monkeypatch.setattr("perdure.control.receipts._folder", lambda: folder / "no-receipts")


@pytest.mark.slow
def test_files_travel_into_a_clone_and_into_a_new_folder(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(terminal.folder / "work")
    work(terminal, [call(write("b.txt", "b\n")), "Done.", call(write("c.txt", "c\n")), "Done again."])
    said = terminal("export", "s", "--to", "s.zip")
    assert (said.code, "1 artifact" in said.out, ", 2 snapshots." in said.out) == (0, False, True)
    elsewhere(monkeypatch, terminal.folder)
    refused = terminal("import", "s.zip", *OTHER, "--into", "s.zip")
    assert (refused.code, "is not a folder" in refused.err) == (1, True)
    git = ["git", "clone", "-q", str(repository), str(terminal.folder / "clone")]
    subprocess.run(git, check=True)
    came = terminal("import", "s.zip", *OTHER, "--into", "clone")
    place = terminal.folder / "clone"
    assert f"It works in {place}; 2 snapshots came with it, and no file there changed.\n" in came.out
    assert "+++ b/b.txt" in terminal("diff", "s", *OTHER).out
    assert sorted(one.name for one in place.iterdir()) == [".git", "a.txt"]
    terminal("send", "s", "again", *OTHER)
    assert terminal("resume", "s", *OTHER).out.endswith("Done again.\n\n")
    third = ("--store", "third.db")
    came = terminal("import", "s.zip", *third)
    assert "Its files, 2 snapshots, were not imported: they need a folder.\n" in came.out
    assert "Run `perdure import s.zip --into DIR --store third.db` with" in came.out
    came = terminal("import", "s.zip", *third, "--into", "fresh")
    fresh = terminal.folder / "fresh"
    assert f"It works in the new folder {fresh}, which has its newest files; 2 snapshots came with it.\n" in came.out
    assert sorted(one.name for one in fresh.iterdir()) == ["a.txt", "b.txt"]
    assert terminal("verify", *third).code == 0


@pytest.mark.slow
def test_bundle_of_the_same_user_keeps_its_folder_and_files(terminal: Terminal) -> None:
    make_repository(terminal.folder / "work")
    work(terminal, [call(write("b.txt", "b\n")), "Done."])
    assert terminal("export", "s", "--move").code == 0
    came = terminal("import", "s.zip", *OTHER)
    assert f"It works in {terminal.folder / 'work'}; 2 snapshots came with it" in came.out
    assert "+++ b/b.txt" in terminal("diff", "s", *OTHER).out


def test_wrong_file_options_are_refused(terminal: Terminal) -> None:
    terminal("run", "user_talk", "--id", "t")
    assert terminal("export", "t", "--max-files-size", "much").code == 2
    assert terminal("export", "t").code == 0
    said = terminal("import", "t.zip", *OTHER, "--into", "fresh")
    assert (said.code, "The bundle has no files" in said.err) == (2, True)


@pytest.mark.slow
def test_import_in_a_clone_asks_at_a_terminal(terminal: Terminal) -> None:
    repository = make_repository(terminal.folder / "work")
    work(terminal, [call(write("b.txt", "b\n")), "Done."])
    bundle = terminal.folder / "s.zip"
    assert terminal("export", "s", "--to", str(bundle)).code == 0
    shutil.rmtree(terminal.folder / "data" / "perdure" / "exports")  # another machine has no receipt of the export
    clone = terminal.folder / "clone"
    subprocess.run(["git", "clone", "-q", str(repository), str(clone)], check=True)
    store = ("--store", str(terminal.folder / "other.db"))
    with PseudoTerminal("import", str(bundle), *store, cwd=clone, width=400) as screen:
        screen.until("Keep repository")
        screen.type("n\n")
        screen.until(f"Let the session work in {clone}, a clone of its repository? [y/N]: ")
        screen.type("y\n")
        assert screen.ended() == 0
        assert f"It works in {clone}; 2 snapshots came with it, and no file there changed." in screen.text
    assert "+++ b/b.txt" in terminal("diff", "s", *store).out
