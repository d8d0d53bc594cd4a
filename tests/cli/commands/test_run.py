"""Running and resuming, in processes that are really killed."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from perdure.control.session_list import newest_unfinished
from perdure.store.moves import session
from perdure.store.store import open_store
from perdure.testing.proxy import wait_until
from tests.cli.support.terminal import Terminal


def test_run_prints_the_result_of_a_program(terminal: Terminal) -> None:
    said = terminal("run", "user_sleeper", "--id", "s-1")
    assert (said.code, said.out, said.err) == (0, "[1,2]\n", "session s-1\n")
    again = terminal("run", "user_sleeper", "--id", "s-1", "--json")
    assert (again.code, again.json["status"], again.json["result"], again.err) == (0, "done", [1, 2], "")


def test_waiting_session_shows_what_to_type(terminal: Terminal) -> None:
    said = terminal.run("user_review", "review-7")
    wait = terminal.wait_of("review-7")
    assert said.code == 3
    assert "Session review-7 waits for a person.\n" in said.out
    assert f"Merge now?\n    perdure answer {wait} yes\n    perdure answer {wait} no\n" in said.out
    assert said.out.endswith("Then run `perdure resume review-7` to continue.\n")
    as_json = terminal("resume", "review-7", "--json")
    assert (as_json.code, [one["kind"] for one in as_json.json["waits"]]) == (3, ["input"])


def test_suggested_command_has_the_store_and_the_app(terminal: Terminal) -> None:
    said = terminal("run", "user_talk", "--id", "t", "--store", "other.db", "--app", "user_app")
    assert said.code == 2
    Path("user_app.py").write_text("from tests.cli.support.programs import *")
    said = terminal("run", "user_talk", "--id", "t", "--store", "other.db", "--app", "user_app")
    assert "perdure resume t --store other.db --app user_app" in said.out
    assert "TEXT --store other.db\n" in said.out


def test_failed_session_exits_with_1_and_its_error(terminal: Terminal) -> None:
    said = terminal("run", "user_fails", "--id", "f")
    assert (said.code, said.out) == (1, "")
    assert "error: Session f failed: ValueError: no \\x1b[31msuch\\x1b[0m thing (programs.py:" in said.err
    assert " in user_fails) [session-failed]\n" in said.err
    shown = terminal("show", "f").out
    assert "Traceback (most recent call last):" in shown
    assert "in user_fails" in shown
    assert "`perdure show f --last 20`" in said.err
    as_json = terminal("run", "user_fails", "--id", "f", "--json")
    assert (as_json.code, as_json.json["status"]) == (1, "failed")
    assert json.loads(as_json.err)["error"]["code"] == "session-failed"


@pytest.mark.slow
def test_resume_follows_the_plan_it_shows_after_a_kill(terminal: Terminal) -> None:
    terminal.arm()
    killed = terminal.process("run", "user_review", f"folder={terminal.folder}", "--id", "review-7")
    assert (killed.code, killed.err) == (-signal.SIGKILL, "session review-7\n")
    plan = terminal.process("resume", "review-7", "--plan")
    assert (plan.code, "is dead" in plan.out) == (0, True)
    assert "user_post  dispatched  1         ask its probe  now" in plan.out
    assert "Nothing was done. Run `perdure resume review-7` to do it." in plan.out
    (planned,) = terminal("resume", "review-7", "--plan", "--json").lines
    assert (planned["tool"], planned["action"], planned["attempts"]) == ("user_post", "probe", 1)
    assert terminal("show", "review-7", "--json").json["session"]["status"] == "running"
    resumed = terminal.process("resume", "review-7")
    assert (resumed.code, "Merge now?" in resumed.out) == (3, True)
    assert len(Path("posted").read_text().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.databases("sqlite", "postgres")
def test_effect_in_doubt_is_settled_and_not_repeated(
    terminal: Terminal, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_STORE", target)
    terminal.arm()
    assert terminal.process("run", "user_release", f"folder={terminal.folder}", "--id", "r").code == -signal.SIGKILL
    said = terminal.process("resume", "--last")
    (doubt,) = terminal("effects", "--in-doubt", "--json").lines
    assert said.code == 3
    assert re.search(rf"perdure settle {doubt['id']} --absent --because TEXT +it was not done;", said.out)
    settled = terminal(
        "settle", doubt["id"][:8], "--happened", "--because", "saw it", "--result", '"deployed"', "--by", "grace"
    )
    assert (settled.code, "is acknowledged: verdict happened by grace." in settled.out) == (0, True)
    assert terminal("resume", "r").out.endswith("deployed\n")


@pytest.mark.slow
@pytest.mark.databases("sqlite", "postgres")
def test_second_process_is_refused_and_sees_the_holder(
    terminal: Terminal, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_STORE", target)
    with terminal.start("run", "user_held", f"folder={terminal.folder}", "--id", "held") as first:
        try:
            wait_until((terminal.folder / "held").exists, "the tool has begun")
            second = terminal.process("run", "user_held", f"folder={terminal.folder}", "--id", "held")
            third = terminal.process("resume", "held", "--plan")
            follower = terminal.start("show", "held", "--last", "0", "--follow")
            assert follower.stdout is not None
            assert "Run `perdure show held --follow` to watch it.\n" in iter(follower.stdout.readline, "")
        finally:
            (terminal.folder / "held").unlink(missing_ok=True)
        assert first.communicate(timeout=180)[0] == "let go\n"
        followed = follower.communicate(timeout=180)[0]
    assert (second.code, f":{first.pid} for up to" in second.err, "[lease-held]" in second.err) == (4, True, True)
    assert "`perdure attach held` watches it" in second.err
    assert "`perdure attach held --take-over`" in second.err
    assert "…" not in third.out + followed, third.out + followed
    assert (third.code, "holds it" in third.out, "If that process died now:" in third.out) == (0, True, True)
    assert (follower.returncode, followed.splitlines()[-1][-18:]) == (0, "it is done: let go")


@pytest.mark.slow
def test_session_without_its_code_waits_for_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal("run", "user_talk", "--id", "t").code == 3
    monkeypatch.delenv("PERDURE_APP")
    again = "Run `perdure resume t --app MODULE` to continue"
    assert again in terminal.process("answer", "t", "Ada").out
    said = terminal.process("resume", "t")
    assert (said.code, "Session t needs code.\n" in said.out) == (3, True)
    assert re.search(r"  program, since \S+: the module that defines user_talk is not loaded\n", said.out)
    assert "perdure resume t --app MODULE  loads the module that defines user_talk\n" in said.out
    assert "program: user_talk" in terminal("ls").out
    from tests.cli.support.terminal import PROGRAMS_FILE

    assert terminal.process("resume", "t", "--app", PROGRAMS_FILE).out.endswith("hello Ada\n")


def test_parent_shows_what_its_child_waits_for(terminal: Terminal) -> None:
    said = terminal("run", "user_parent", "--id", "p")
    assert (said.code, "child kid: Name?" in said.out) == (3, True)
    answered = terminal("answer", "kid", "Ada")
    assert "Run `perdure resume p` to continue" in answered.out
    assert terminal("resume", "p").out.endswith("hello Ada\n")


def test_last_session_is_never_a_child(terminal: Terminal) -> None:
    """The child moved last, and it is resumed by resuming its parent."""
    terminal("run", "user_parent", "--id", "p")
    terminal("answer", "kid", "Ada")
    with open_store(str(terminal.folder / "perdure.db")) as store:
        moved = max(store.read_now(session.page), key=lambda one: (one.updated_at, one.uid))
        assert moved.id == "kid"
        assert store.read_now(newest_unfinished).parent_uid is None


def test_resume_needs_a_session(terminal: Terminal) -> None:
    assert terminal("resume", "x", "--last").code == 2
    assert terminal("resume").code == 2
    terminal("run", "user_sleeper", "--id", "s-1")
    said = terminal("resume", "--last")
    assert (said.code, "Every session has ended" in said.err) == (1, True)
    assert terminal("resume", "s-1").out == "[1,2]\n"
    assert terminal("resume", "s-1", "--plan").out == "Session s-1 is done; there is nothing to do.\n"


@pytest.mark.slow
def test_interrupt_releases_the_session(terminal: Terminal) -> None:
    with terminal.start("run", "user_held", f"folder={terminal.folder}", "--id", "held") as first:
        wait_until((terminal.folder / "held").exists, "the tool has begun")
        first.send_signal(signal.SIGINT)
        (terminal.folder / "held").unlink()
        first.communicate(timeout=180)
    assert first.returncode == 130
    session = terminal("show", "held", "--json").json["session"]
    assert (session["status"], session["lease_holder"]) == ("ready", None)


@pytest.mark.slow
def test_run_with_ignored_interrupts_finishes(terminal: Terminal) -> None:
    arguments = ("run", "user_held", f"folder={terminal.folder}", "--id", "held")
    with terminal.start(*arguments, ignoring_interrupts=True) as first:
        wait_until((terminal.folder / "held").exists, "the tool has begun")
        first.send_signal(signal.SIGINT)
        (terminal.folder / "held").unlink()
        first.communicate(timeout=180)
    assert first.returncode == 0
    assert terminal("show", "held", "--json").json["session"]["status"] == "done"
