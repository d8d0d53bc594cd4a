"""Lists, one session, its past and its chain: as text and as JSON, without side effects."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from perdure.domain.fact import Fact
from perdure.domain.session import SessionRecord
from perdure.domain.wait import WaitKind
from perdure.store.moves import lease, session, wait
from perdure.store.store import open_store
from tests.cli.support.terminal import Terminal

READS = ["ls", "effects", "approvals", "decisions", "facts", "verify"]
AT_ONE = ["show", "tasks", "decisions", "verify"]


@pytest.fixture
def some(terminal: Terminal) -> Terminal:
    """A session that is done, one that failed, and one that asks."""
    assert terminal("run", "user_sleeper", "--id", "done-1", "--owner", "grace").code == 0
    assert terminal("run", "user_fails", "--id", "failed-1").code == 1
    assert terminal.run("user_review", "review-7", "--title", "a \x1b[2Jtitle").code == 3
    return terminal


@pytest.mark.parametrize("command", READS)
def test_listing_a_missing_store_does_not_create_it(terminal: Terminal, command: str) -> None:
    said = terminal(command)
    assert (said.code, "There is no store at" in said.err) == (1, True)
    assert list(terminal.folder.iterdir()) == []


@pytest.mark.parametrize("command", READS)
def test_empty_store_is_reported_as_empty(terminal: Terminal, command: str) -> None:
    open_store("perdure.db").close()
    said = terminal(command)
    assert (said.code, said.err, len(said.out.splitlines())) == (0, "", 1)
    as_json = terminal(command, "--json")
    nothing = {"sessions": 0, "events": 0, "damaged": [], "damaged_sessions": 0, "rows": []}
    assert as_json.out == "" or as_json.json == nothing


@pytest.mark.parametrize("command", AT_ONE)
@pytest.mark.parametrize(("id", "code"), [("", "not-found"), ("unknown", "not-found"), ("t-", "conflict")])
def test_id_must_match_one_session(terminal: Terminal, command: str, id: str, code: str) -> None:
    with open_store("perdure.db") as store:
        for name in ("t-1", "t-2"):
            store.write_now(session.create(session.NewSession(id=name, program="p", arguments={}), by="ada"))
    said = terminal(command, id)
    assert (said.code, f"[{code}]" in said.err) == (1, True)
    assert terminal(command, "t-1").code == 0


def test_sessions_that_need_a_person_come_first(some: Terminal) -> None:
    terminal = some
    terminal("run", "user_sleeper", "--id", "done-2")
    said = terminal("ls")
    assert [line.split()[0] for line in said.out.splitlines()[1:5]] == ["review-7", "done-2", "failed-1", "done-1"]
    assert "input: Merge now?" in said.out
    assert said.out.endswith("1 of these needs a person. `perdure show ID` shows what to type.\n")


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--status", "failed"], ["failed-1"]),
        (["--status", "waiting"], ["review-7"]),
        (["--waiting-for", "input"], ["review-7"]),
        (["--waiting-for", "doubt"], []),
        (["--owner", "grace"], ["done-1"]),
        (["--repository", "."], []),
        (["--limit", "1"], ["review-7"]),
    ],
)
def test_list_is_filtered(some: Terminal, options: list[str], ids: list[str]) -> None:
    assert [one["id"] for one in some("ls", "--json", *options).lines] == ids


def test_limited_list_reports_that_there_are_more(some: Terminal) -> None:
    assert "These are the first 2. Use --limit to list more." in some("ls", "--limit", "2").out
    assert "These are the first" not in some("ls", "--limit", "3").out
    assert some("ls", "--limit", "0").code == 2


def test_json_has_the_fields_of_the_records(some: Terminal) -> None:
    (first, *_) = some("ls", "--json").lines
    assert list(first) == [*SessionRecord.columns(), "waits", "lost"]
    shown = some("show", "review-7", "--json").json
    assert list(shown) == ["session", "waits", "effects", "events", "approvals"]
    assert list(shown["session"]) == list(SessionRecord.columns())
    (fact,) = some("facts", "--json").lines
    assert list(fact) == list(Fact.columns())


def test_show_prints_waits_commands_effects_and_events(some: Terminal) -> None:
    said = some("show", "review-7", "--last", "2").out
    wait_id = some.wait_of("review-7")
    assert f"    perdure answer {wait_id} yes\n" in said
    assert "user_post  acknowledged  maybe    1" in said
    assert said.endswith(f"it waits for {wait_id}\n")
    assert " earlier events; use --last to show more" in said
    assert "result      [1,2]" in some("show", "done").out
    assert "error       ValueError: no" in some("show", "failed").out


def test_control_characters_in_stored_text_are_escaped(some: Terminal) -> None:
    for arguments in (["show", "review-7", "--last", "100"], ["show", "failed-1"], ["effects"], ["ls"], ["decisions"]):
        said = some(*arguments)
        assert "\x1b" not in said.out + said.err
    assert "a \\x1b[2Jtitle" in some("show", "review-7").out


def test_show_at_an_event_shows_the_session_as_it_was(some: Terminal) -> None:
    events = some("show", "review-7", "--last", "100", "--json").json["events"]
    planned = next(one["number"] for one in events if one["kind"] == "effect.dispatched")
    then = some("show", "review-7", "--at", str(planned)).out
    assert f"This is the session as it was after event {planned}." in then
    assert "user_post  dispatched" in then
    assert "Merge now?" not in then
    state = some("show", "review-7", "--at", str(planned), "--json").json
    assert [one["state"] for one in state["effects"].values()] == ["dispatched"]
    assert some("show", "review-7", "--at", "999").code == 1
    assert some("show", "review-7", "--at", "3", "--follow").code == 2


def test_follow_of_an_ended_session_returns(some: Terminal) -> None:
    assert some("show", "done-1", "--follow").code == 0
    followed = some("show", "done-1", "--follow", "--json", "--last", "1").lines
    assert [one["kind"] for one in followed] == ["session.finished"]


def test_effects_are_filtered(some: Terminal) -> None:
    assert [one["tool"] for one in some("effects", "--session", "review", "--json").lines] == ["user_post"]
    for options in (["--tool", "nothing"], ["--state", "failed"], ["--session", "done-1"], ["--in-doubt"]):
        assert some("effects", "--json", *options).lines == []
    assert len(some("effects", "--since", "1h", "--tool", "user_post", "--json").lines) == 1
    assert [one["tool"] for one in some("effects", "--reach", "outside", "--json").lines] == ["user_post"]
    assert some("effects", "--reach", "machine", "--json").lines == []
    assert some("effects", "--since", "0ms", "--json").lines == []
    assert some("effects", "--since", "yesterday").code == 2


def test_effects_show_what_may_have_left_the_machine(some: Terminal) -> None:
    found = some("effects", "--json").lines
    assert [(one["tool"], one["outside"]) for one in found] == [("user_post", "maybe")]
    assert some("effects", "--outside", "--json").lines == found
    header, line = some("effects").out.splitlines()
    assert line[header.index("outside") :].startswith("maybe")


def test_tasks_decisions_and_facts_are_listed(some: Terminal) -> None:
    assert some("tasks", "review-7").out == "[x] read the diff  read\n"
    assert some("tasks", "done-1").out == "Session done-1 has no tasks.\n"
    assert "comment, do not block  only style  user_post  commented" in some("decisions", "review-7").out
    assert some("decisions", "--incomplete").out == "Every decision has an outcome.\n"
    assert "stale" in some("facts", "--scope", "user").out
    assert some("facts", "--scope", "elsewhere").out == "There are no facts in the scope elsewhere.\n"


def test_changed_event_is_found(some: Terminal) -> None:
    said = some("verify")
    assert (said.code, "3 sessions, " in said.out, said.out.endswith("all chains are intact.\n")) == (0, True, True)
    db = apsw.Connection("perdure.db")
    names = [name for (name,) in db.execute("select name from sqlite_master where type = 'trigger'").fetchall()]
    for name in names:
        db.execute(f"drop trigger {name}")
    db.execute(
        "update event set actor = 'mallory' where number = 2 and session_uid = "
        "(select uid from session where id = 'done-1')"
    )
    db.close()
    said = some("verify")
    assert (said.code, "event 2" in said.out, "Damaged: 1 of 3 sessions." in said.out) == (1, True, True)
    assert len(some("verify", "--json").json["damaged"]) == 1
    assert (some("verify", "done-1").code, some("verify", "review-7").code) == (1, 0)


@pytest.mark.slow
def test_listing_imports_neither_programs_nor_runtime_nor_rich(some: Terminal) -> None:
    code = "import sys; from perdure.cli import main\ntry: main(['ls'])\nfinally: print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(said.splitlines()[-1].split())
    assert {
        "rich",
        "prompt_toolkit",
        "asyncio",
        "psycopg",
        "perdure.runtime.runtime",
        "perdure.store.store",
        "programs",
    } & loaded == set()


@pytest.mark.slow
@pytest.mark.databases("files", "postgres")
def test_listing_is_the_same_on_every_store(terminal: Terminal, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_STORE", target)
    if target.startswith("files:"):
        assert terminal("ls").code == 1
        assert not Path(target.removeprefix("files:")).exists()
    assert terminal.run("user_review", "review-7").code == 3
    assert "input: Merge now?" in terminal("ls").out
    assert "perdure answer w-" in terminal("show", "review-7").out
    assert "all chains are intact." in terminal("verify").out
    assert terminal("answer", "review-7", "no").code == 0
    assert terminal("resume", "review-7").out.endswith("6 no\n")


def test_suggested_command_has_no_password(terminal: Terminal) -> None:
    from perdure.cli.shell import Shell

    line = Shell("postgresql://me:secret@host/db", json=False).suggest("ls")
    assert ("secret" in line, line) == (False, "perdure ls --store postgresql://me@host/db")
    line = Shell("postgresql://host/db?user=me&password=secret", json=False).suggest("ls")
    assert line == "perdure ls --store 'postgresql://host/db?user=me'"


def test_older_schema_is_refused(terminal: Terminal) -> None:
    open_store("perdure.db").close()
    db = apsw.Connection("perdure.db")
    db.execute("update meta set value = '1' where key = 'schema_version'")
    db.close()
    said = terminal("ls", "--json")
    assert (said.code, json.loads(said.err)["error"]["code"]) == (1, "schema-mismatch")
    assert "perdure migrate" in said.err


def test_list_counts_further_waits(terminal: Terminal) -> None:
    with open_store("perdure.db") as store:
        made = store.write_now(session.create(session.NewSession(id="s", program="p", arguments={}), by="ada"))
        holder = store.write_now(lease.acquire(made.uid, "w-1", nonce="n", ttl=10**9))
        for kind in (WaitKind.TIMER, WaitKind.INPUT):
            store.write_now(wait.open_(holder, f"w-{kind}", kind, due_at=2**52))
    assert "input (+1)" in terminal("ls").out


def test_session_with_an_expired_lease_shows_how_to_resume(terminal: Terminal) -> None:
    with open_store("perdure.db") as store:
        made = store.write_now(session.create(session.NewSession(id="s", program="p", arguments={}), by="ada"))
        store.write_now(lease.acquire(made.uid, "w-1", nonce="n", ttl=1))
    said = terminal("ls").out
    assert "a worker: its lease has expired" in said
    assert said.endswith("1 of these has lost its worker. `perdure resume ID` takes a session over.\n")
    assert "`perdure resume s` to continue it here." in terminal("show", "s").out
