"""`perdure schedules`: what is listed, shown, added, changed and refused."""

from __future__ import annotations

import pytest

from tests.cli.support.terminal import PROGRAMS_FILE, Terminal

APP = ("--app", PROGRAMS_FILE)
DAILY = ("schedules", "add", "nightly", "user_fails", "--cron", "30 3 * * *", "--tz", "Europe/Berlin", *APP)


def test_schedule_is_added_listed_shown_paused_and_removed(terminal: Terminal) -> None:
    added = terminal(*DAILY, "--queue", "reports", "--retries", "2", "--owner", "ada", "--jitter", "30s")
    assert added.code == 0, added.err
    assert added.out.startswith("The schedule nightly is added. Its next session starts at ")
    listed = terminal("schedules").out
    assert "30 3 * * * Europe/Berlin, up to 30s later" in listed
    assert "user_fails()" in listed
    shown = terminal("schedules", "show", "nightly", "--json").json
    assert (len(shown["ticks"]), shown["sessions"], shown["options"]["queue"]) == (5, [], "reports")
    text = terminal("schedules", "show", "nightly").out
    assert text.count("03:30 CE") == 5
    assert terminal("schedules", "pause", "nightly").out == "The schedule nightly is paused.\n"
    assert "paused for 0s" in terminal("schedules").out
    assert terminal("schedules", "resume", "nightly").out.startswith("The schedule nightly is resumed.")
    assert terminal("schedules", "rm", "nightly").out == "The schedule nightly is removed.\n"
    assert terminal("schedules").out == "There are no schedules.\n"


def test_adding_the_same_name_again_changes_the_schedule(terminal: Terminal) -> None:
    assert terminal(*DAILY, "--json").json["version"] == 1
    assert terminal(*DAILY, "--json").json["version"] == 1
    changed = terminal(*DAILY, "--overlap", "queue")
    assert changed.out.startswith("The schedule nightly is at version 2.")


def test_backfill_and_run_start_sessions(terminal: Terminal) -> None:
    terminal(*DAILY, "--overlap", "queue")
    made = terminal("schedules", "backfill", "nightly", "--since", "2025-06-01", "--until", "2025-06-03")
    assert made.out.splitlines() == ["nightly-2025-06-01T01:30", "nightly-2025-06-02T01:30"]
    assert made.err == "2 sessions started.\n"
    started = terminal("schedules", "run", "nightly", "--json").json
    assert started["status"] == "waiting"
    sessions = terminal("schedules", "show", "nightly", "--json").json["sessions"]
    assert [one["status"] for one in sessions] == ["waiting", "waiting", "ready"]
    assert started["id"] in terminal("schedules", "show", "nightly").out


def test_prompt_is_scheduled_as_an_agent_that_ends_with_its_answer(terminal: Terminal) -> None:
    (terminal.folder / "x.json").write_text("[]")
    made = terminal(
        "schedules", "add", "triage", "look at the new issues", "--every", "1h", "--model", "scripted:x.json", "--json"
    )
    assert made.code == 0, made.err
    found = made.json
    assert (found["program"], found["arguments"]["once"], found["every"]) == ("agent", True, 3_600_000_000)
    assert found["options"]["title"] == "look at the new issues"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nightly", "user_fails", "--cron", "61 * * * *"], "is not a cron expression: bad minute."),
        (["nightly", "user_fails", "--cron", "* * * * *", "--tz", "Mars/Base"], "There is no time zone 'Mars/Base'."),
        (["nightly", "--every", "1m"], "The program of the schedule is missing."),
        (["nightly", "user_fails"], "A schedule has either a cron expression or a period."),
        (["nightly", "user_fails", "--every", "soon"], "'soon' is not a duration."),
        (["nightly", "user_fails", "n=1", "--every", "1m"], "user_fails"),
        (["nightly", "missing", "--every", "1m"], "There is no program or agent 'missing'."),
        (["a b", "user_fails", "--every", "1m"], "is not a valid name"),
    ],
)
def test_wrong_schedule_is_refused_with_one_sentence(terminal: Terminal, arguments: list[str], message: str) -> None:
    refused = terminal("schedules", "add", *arguments, *APP)
    assert (refused.code, message in refused.err) == (2, True), refused.err
    assert " hint: " in refused.err


def test_unknown_schedule_is_named(terminal: Terminal) -> None:
    terminal(*DAILY)
    for words in (["show"], ["pause"], ["resume"], ["rm"], ["run"], ["backfill", "--since", "2025", "--until", "2026"]):
        refused = terminal("schedules", words[0], "other", *words[1:])
        assert (refused.code, "There is no schedule 'other'." in refused.err) == (1, True), refused.err
