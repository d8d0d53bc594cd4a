"""`perdure audit`: what is printed, as a table, JSON and CSV, and what is refused."""

from __future__ import annotations

import csv
import json
from contextlib import closing

import apsw
import pytest

from perdure.domain.exemption import ExemptionScope
from perdure.evaluation.audit.history import AuditHistory, write_history
from perdure.store.audit.questions import QUESTIONS
from perdure.store.moves import exemption, session
from perdure.store.store import open_store
from perdure.testing.proxy import wait_until
from tests.cli.support.terminal import Terminal


@pytest.fixture
def history(terminal: Terminal) -> AuditHistory:
    with open_store(str(terminal.folder / "perdure.db")) as store:
        return write_history(store, events=2_000, recent=1_000)


def test_every_question_is_listed_and_answered(terminal: Terminal, history: AuditHistory) -> None:
    assert history.sessions
    assert [one["name"] for one in terminal("audit", "--json").lines] == list(QUESTIONS)
    given = {
        "targets": ["--target", "branch:main"],
        "who-approved": ["--session", "audit-2"],
        "inherited": ["--session", "audit-4"],
    }
    for name in QUESTIONS:
        done = terminal("audit", name, *given.get(name, []))
        assert done.code == 0, (name, done.err)
        empty = "Nothing on record answers this question." in done.out
        assert empty == (name == "removals"), name


def test_tables_say_when_there_is_more(terminal: Terminal, history: AuditHistory) -> None:
    assert history.sessions
    shown = terminal("audit", "access", "--limit", "1")
    assert "os:lovelace" in shown.out
    assert "These are the first 1. Use --limit to list more." in shown.out
    assert len(terminal("audit", "access", "--json", "--limit", "1").lines) == 1
    assert len(terminal("audit", "access", "--json").lines) == 2


def test_ranges_are_durations_or_dates(terminal: Terminal, history: AuditHistory) -> None:
    recent = {row[0] for row in history.truth["failed-runs"]}
    given = str(history.since // 1_000_000)
    assert {one["session"] for one in terminal("audit", "failed-runs", "--json", "--since", "49h").lines} >= recent
    assert terminal("audit", "failed-runs", "--json", "--until", "2001-01-01").out == ""
    for wrong in (["--since", "yesterday"], ["--since", given], ["--since", "1h", "--until", "2h"]):
        assert terminal("audit", "failed-runs", *wrong).code == 2, wrong
    assert terminal("audit", "nonsense").code == 2
    assert terminal("audit", "targets").code == 2


def test_csv_has_no_formulas_and_every_row(terminal: Terminal) -> None:
    with open_store(str(terminal.folder / "perdure.db")) as store:
        scope = ExemptionScope(session_uid=None, repository=None, owner="ada", tool=None)
        store.write_now(exemption.grant("push", scope, by="ada", because='=HYPERLINK("http://evil")\n,"x"', uses=1))
    heads, row = csv.reader(terminal("audit", "exemptions", "--csv").out.splitlines(keepends=True))
    assert heads == [column.name for column in QUESTIONS["exemptions"].columns]
    assert dict(zip(heads, row, strict=True))["because"] == '\'=HYPERLINK("http://evil")\n,"x"'
    table = terminal("audit", "exemptions").out
    assert "\\n" in table
    assert len(table.strip().splitlines()) == 2


def test_a_head_is_written_signed_recorded_and_compared(terminal: Terminal, history: AuditHistory) -> None:
    assert history.sessions
    assert "It was not written to a file" in terminal("audit", "head").out
    made = terminal("audit", "head", "--to", "kept.head", "--sign", "--json")
    assert (made.code, made.json["sessions"]) == (0, 20)
    assert terminal("audit", "changes", "--kind", "audit.head", "--json").lines[0]["body"]["root"] == made.json["root"]
    same = terminal("audit", "verify", "--against", "kept.head", "--signed-by", "me")
    assert (same.code, "is signed by me" in same.out) == (0, True)
    with closing(apsw.Connection(str(terminal.folder / "perdure.db"))) as db:
        db.execute("drop trigger event_is_append_only")
        db.execute("update event set actor = 'mallory' where number = 7")
    wrong = terminal("audit", "verify", "--against", "kept.head")
    assert (wrong.code, "audit-3: edited: event 7" in wrong.out) == (1, True)
    assert len(terminal("audit", "verify", "--against", "kept.head", "--json").json["findings"]) == 20
    (terminal.folder / "unsigned.head").write_bytes(b'{"format":"x"}\n{"root":"x"}\n')
    assert terminal("audit", "verify", "--against", "unsigned.head").code == 1
    assert terminal("audit", "verify", "--against", "none.head").code == 2


def test_tail_continues_at_the_position_that_it_kept(terminal: Terminal, history: AuditHistory) -> None:
    every = terminal("audit", "tail", "--json").lines
    assert len(every) == history.events + sum(one["session"] is None for one in every)
    assert [one["position"] for one in every] == list(range(1, len(every) + 1))
    assert "body" not in every[0]
    assert terminal("audit", "tail", "--json", "--after", "7").lines == every[7:]
    assert terminal("audit", "tail", "--json", "--position", "kept").lines == every
    assert terminal("audit", "tail", "--json", "--position", "kept").lines == []
    with open_store(str(terminal.folder / "perdure.db")) as store:
        store.write_now(session.create(session.NewSession(id="late", program="agent", arguments={}), by="ada"))
    [new] = terminal("audit", "tail", "--json", "--bodies", "--position", "kept").lines
    assert (new["session"], new["position"], "rows" in new["body"]) == ("late", len(every) + 1, True)
    assert "session.created  ada" in terminal("audit", "tail", "--after", str(len(every))).out
    (terminal.folder / "kept").write_text("nonsense")
    assert terminal("audit", "tail", "--position", "kept").code == 2
    assert terminal("audit", "tail", "--after", "100000").code == 1


def test_tail_follows_the_store(terminal: Terminal, history: AuditHistory) -> None:
    assert history.sessions
    follower = terminal.start("audit", "tail", "--follow", "--json", "--position", "kept")
    try:
        assert follower.stdout is not None
        seen = [json.loads(follower.stdout.readline())]
        with open_store(str(terminal.folder / "perdure.db")) as store:
            store.write_now(session.create(session.NewSession(id="late", program="agent", arguments={}), by="ada"))
        while seen[-1]["session"] != "late":
            seen.append(json.loads(follower.stdout.readline()))
        assert [one["position"] for one in seen] == list(range(1, len(seen) + 1))
        wait_until(lambda: (terminal.folder / "kept").read_text().strip() == str(len(seen)), "the position is kept")
    finally:
        follower.kill()
        follower.communicate(timeout=180)


def test_a_report_is_a_page_or_its_figures(terminal: Terminal, history: AuditHistory) -> None:
    assert history.sessions
    assert "report.html" in terminal("audit", "report", "--since", "3d", "--to", "report.html").out
    written = (terminal.folder / "report.html").read_text()
    assert written.startswith("<!doctype html>")
    assert written.count("<svg") == 4
    assert terminal("audit", "report").out.startswith("<!doctype html>")
    titles = [one["title"] for one in terminal("audit", "report", "--json").json["sections"]]
    assert titles[:5] == ["Effects", "Waiting for people", "Waiting now", "Doubts", "Cost"]
    assert terminal("audit", "report", "--since", "nonsense").code == 2


@pytest.mark.parametrize("what", ["head", "report"])
@pytest.mark.parametrize("place", ["missing/file", "."])
def test_a_file_that_cannot_be_written_is_named(
    terminal: Terminal, history: AuditHistory, what: str, place: str
) -> None:
    assert history.sessions
    said = terminal("audit", what, "--to", place)
    begun = [one.name for one in terminal.folder.iterdir() if one.name.startswith(".")]
    assert (said.code, f"{place} cannot be written" in said.err, begun) == (2, True, [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("who-approved",), "Say what it is about: --session, --effect, --commit or --target."),
        (("nope",), "`perdure audit` lists the questions."),
        (("controlls",), "Did you mean controls?"),
    ],
)
def test_a_wrong_question_says_what_is_missing(
    terminal: Terminal, history: AuditHistory, words: tuple[str, ...], said: str
) -> None:
    found = terminal("audit", *words)
    assert (found.code, said in found.err) == (2, True), found
