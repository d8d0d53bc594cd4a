"""What a person requests: answers, votes, verdicts, messages, branches, cancel and pause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.runtime.definitions.program import PROGRAMS
from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.terminal import PROGRAMS_FILE, Terminal

REVIEW = "review-7"


@pytest.fixture
def review(terminal: Terminal) -> Terminal:
    """A review that asks whether to merge."""
    assert terminal.run("user_review", REVIEW).code == 3
    return terminal


def in_doubt(terminal: Terminal) -> str:
    """A release whose process was killed in the middle of an effect, and that effect."""
    terminal.arm()
    terminal.process("run", "user_release", f"folder={terminal.folder}", "--id", "release")
    assert terminal("resume", "release").code == 3
    (effect,) = terminal("effects", "--in-doubt", "--json").lines
    return str(effect["id"])


def test_question_is_found_by_id_prefix_or_by_session(review: Terminal) -> None:
    wait = review.wait_of(REVIEW)
    wrong = review("answer", wait, "maybe")
    assert (wrong.code, "'maybe' is not one of yes, no." in wrong.err) == (2, True)
    said = review("answer", wait[:5], "no", "--by", "grace")
    assert (said.code, said.out.startswith(f"grace answered {wait} of session review-7: no\n")) == (0, True)
    assert review("resume", REVIEW).out.endswith("6 no\n")
    again = review("answer", wait, "yes")
    assert (again.code, "[conflict]" in again.err) == (1, True)


@pytest.mark.parametrize(("name", "code"), [("", "not-found"), ("unknown", "not-found"), ("t-", "conflict")])
def test_answer_without_a_question_is_refused(terminal: Terminal, name: str, code: str) -> None:
    terminal("run", "user_talk", "--id", "t-1")
    terminal("run", "user_talk", "--id", "t-2")
    said = terminal("answer", name, "Ada")
    assert (said.code, f"[{code}]" in said.err) == (1, True)


def test_approval_is_shown_voted_on_and_used(review: Terminal) -> None:
    review("answer", REVIEW, "yes")
    said = review("resume", REVIEW)
    (asked,) = review("approvals", "--json").lines
    assert said.code == 3
    assert f"perdure approve {asked['id']}\n    perdure deny {asked['id']}\n" in said.out
    assert "the gate merge holds back user_merge(pr=7) (not by ada, who requested it; expires in 23h 59m)" in said.out
    assert "user_merge(pr=7)" in review("approvals").out
    own = review("approve", asked["id"], "--because", "mine")
    assert (own.code, "ada requested approval" in own.err) == (1, True)
    assert review("approve", asked["id"], "--because", " ", "--by", "grace").code == 2
    approved = review("approve", asked["id"][:6], "--because", "read it", "--by", "grace", "--json")
    assert (approved.json["decision"], approved.json["id"]) == ("approved", asked["id"])
    assert review("resume", REVIEW).out.endswith("6 yes\n")
    assert review("approvals").out == "No approval is pending.\n"
    header, line = review("approvals", "--all").out.splitlines()
    assert line[header.index("by") :].startswith("grace")
    assert "because" in header
    (decided,) = review("approvals", "--all", "--json").lines
    assert [(one["voter"], one["decision"]) for one in decided["votes"]] == [("grace", "approved")]
    assert review("show", REVIEW, "--json").json["approvals"] == [decided]
    assert "approved by grace" in review("show", REVIEW).out


def test_denied_approval_raises_in_the_program(review: Terminal) -> None:
    review("answer", REVIEW, "yes")
    review("resume", REVIEW)
    (asked,) = review("approvals", "--json").lines
    assert "it is denied" in review("deny", asked["id"], "--because", "too early", "--by", "grace").out
    said = review("resume", REVIEW)
    assert (said.code, "ApprovalDenied" in said.err, "too early" in said.err) == (1, True, True)


@pytest.mark.slow
def test_verdict_is_checked_before_it_is_recorded(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    effect = in_doubt(terminal)
    for given, complaint in (
        ((), "The verdict is missing."),
        (("--absent", "--result", "1"), "belong to --happened"),
        (("--happened", "--result", "{bad"), "--result is not JSON"),
        (("--happened",), "user_deploy returns a value, and none was given."),
        (("--happened", "--result", "7"), "does not return what its annotation says"),
    ):
        said = terminal("settle", effect, *given, "--because", "looked")
        assert (said.code, complaint in said.err) == (2, True), said
    settle = f"  perdure settle {effect} --happened --because TEXT --result JSON  it was done; JSON is what the tool"
    assert f"{settle} would return\n" in terminal("effects").out
    monkeypatch.delenv("PERDURE_APP")
    assert f"{settle} would return, null for nothing\n" in terminal.process("effects").out
    unloaded = terminal.process("settle", effect, "--happened", "--because", "looked")
    assert (unloaded.code, "is not loaded" in unloaded.err, "--app" in unloaded.err) == (2, True, True)
    assert len(terminal("effects", "--in-doubt", "--json").lines) == 1


@pytest.mark.slow
def test_abandoned_effect_raises_in_the_program(terminal: Terminal) -> None:
    effect = in_doubt(terminal)
    assert "is failed: verdict abandon by ada." in terminal("settle", effect, "--abandon", "--because", "no idea").out
    said = terminal("resume", "release")
    assert (said.code, "EffectInDoubt" in said.err) == (1, True)
    again = terminal("settle", effect, "--happened", "--because", "wait, I know")
    assert (again.code, "[illegal-move]" in again.err) == (1, True)


def test_only_effects_in_doubt_can_be_settled(review: Terminal) -> None:
    (effect,) = review("effects", "--json").lines
    said = review("settle", effect["id"], "--happened", "--because", "saw it")
    assert (said.code, "is acknowledged, not in doubt" in said.err) == (1, True)
    assert review("settle", "e-nothing", "--absent", "--because", "x").code == 1


def test_message_with_the_same_id_is_sent_once(work: AgentFolder) -> None:
    assert work(*work.script("Hello.")).code == 0
    first = work("send", "one", "also the docs", "--id", "m-1", "--mode", "steer", "--json").json
    again = work("send", "one", "also the docs", "--id", "m-1", "--mode", "steer", "--json").json
    assert (first, first["sender"], first["mode"]) == (again, "ada", "steer")
    other = work("send", "one", "something else", "--id", "m-1", "--mode", "steer")
    assert (other.code, "[conflict]" in other.err) == (1, True)
    assert "m-2 from grace is in the inbox" in work("send", "one", "hi", "--id", "m-2", "--by", "grace").out
    wrong = (("",), ("x", "--id", ""), ("x", "--mode", "shout"))
    assert [work("send", "one", *bad).code for bad in wrong] == [2, 2, 2]


def test_program_receives_a_json_value_and_a_decision(terminal: Terminal) -> None:
    said = terminal("run", "user_orders", "--id", "o")
    assert (said.code, "perdure send o TEXT" in said.out, "It must be of type" in said.out) == (3, True, True)
    for wrong in (("pens",), ('{"pens": "two"}', "--data"), ("{", "--data")):
        assert terminal("send", "o", *wrong).code == 2
    assert terminal("send", "o", '{"pens": 2}', "--data", "--id", "m-1").code == 0
    waiting = terminal("resume", "o")
    assert (waiting.code, 'holds back perdure.approve(title="Ship"' in waiting.out) == (3, True)
    (asked,) = terminal("approvals", "--json").lines
    assert terminal("deny", asked["id"], "--because", "no", "--by", "grace").code == 0
    assert terminal("resume", "o").out.endswith("{'pens': 2} denied\n")


@pytest.mark.parametrize("is_loaded", [True, False])
def test_message_to_a_program_that_reads_none_is_refused(
    review: Terminal, is_loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_loaded:
        monkeypatch.delitem(PROGRAMS, "user_review")
    said = review("send", REVIEW, "also the docs")
    assert (said.code, "user_review of session review-7 reads no messages; nothing was sent." in said.err) == (2, True)
    assert "inbox.received" not in {one["kind"] for one in review("show", REVIEW, "--json").json["events"]}


def test_fork_reports_inherited_and_other_effects(review: Terminal) -> None:
    events = review("show", REVIEW, "--last", "100", "--json").json["events"]
    planned = next(one["number"] for one in events if one["kind"] == "effect.dispatched")
    after = review("fork", REVIEW, "--id", "after").out
    assert "It inherits 1 settled effect and repeats none of them." in after
    during = review("fork", REVIEW, "--at", str(planned), "--id", "during").out
    assert "Not settled at that event. review-7 settles them" in during
    before = review("fork", REVIEW, "--at", str(planned - 1), "--id", "before").out
    assert f"Planned by review-7 after event {planned - 1}, and not inherited" in before
    assert "user_post(" in before
    assert "Run `perdure resume before` to start it." in before
    assert review("resume", "after").code == 3
    assert len(Path("posted").read_text().splitlines()) == 1
    wrong = review("fork", REVIEW, "--at", "9999")
    assert (wrong.code, "and no event 9999" in wrong.err) == (1, True)


def test_session_that_no_process_runs_is_cancelled_immediately(review: Terminal) -> None:
    assert review("cancel", REVIEW, "--by", "grace").out == "Session review-7 is cancelled.\n"
    ended = review("resume", REVIEW)
    assert (ended.code, "Session review-7 was cancelled" in ended.err) == (1, True)
    again = review("cancel", REVIEW)
    assert (again.code, "is cancelled already" in again.err) == (1, True)


@pytest.mark.slow
def test_branch_is_cancelled_without_the_code_of_its_agent(work: AgentFolder) -> None:
    assert work(*work.script(calls("I look.", ("read_file", {"path": "a.py"})), "Done.")).code == 0
    assert work("fork", "one", "--id", "four").code == 0
    said = work.terminal.process("cancel", "four")
    assert (said.code, said.out.startswith("Session four is cancelled.\n"), said.err) == (0, True, "")


@pytest.mark.slow
def test_cancel_waits_for_an_effect_in_doubt(terminal: Terminal) -> None:
    effect = in_doubt(terminal)
    said = terminal("cancel", "release").out
    assert said.startswith("Cancel requested for session release. It ends when these effects are settled:\n\n")
    assert f"  {effect} user_deploy: in doubt\n    perdure settle {effect} --happened" in said
    now = terminal("show", "release", "--json").json["session"]
    assert (now["status"], now["cancel_requested_at"] is not None) == ("waiting", True)
    terminal("settle", effect, "--absent", "--because", "it is not there")
    assert terminal("show", "release", "--json").json["session"]["status"] == "cancelled"
    assert terminal("effects", "--json").lines[0]["state"] == "refused"


def test_pause_is_shown_and_ends_with_resume(review: Terminal) -> None:
    assert "Pause requested" in review("pause", REVIEW).out
    assert "pause requested" in review("show", REVIEW).out
    review("answer", REVIEW, "no")
    assert review("resume", REVIEW).out.endswith("6 no\n")


def test_user_comes_from_option_then_setting_then_login(work: AgentFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    work(*work.script("Hello."))

    def sender(*options: str) -> str:
        return str(json.loads(work("send", "one", "x", "--json", *options).out)["sender"])

    assert sender("--by", "grace") == "grace"
    assert sender() == "ada"
    monkeypatch.delenv("PERDURE_BY")
    monkeypatch.setenv("LOGNAME", "hopper")
    assert sender() == "hopper"


@pytest.mark.parametrize(
    "command", ["send", "answer", "approve", "deny", "settle", "fork", "cancel", "pause", "resume"]
)
def test_command_on_a_missing_store_does_not_create_it(terminal: Terminal, command: str) -> None:
    more = {"send": ["hi"], "answer": ["hi"], "approve": ["--because", "x"], "deny": ["--because", "x"]}
    more["settle"] = ["--absent", "--because", "x"]
    said = terminal(command, "unknown", *more.get(command, []), "--app", PROGRAMS_FILE)
    assert (said.code, "There is no store at" in said.err) == (1, True)
    assert list(terminal.folder.glob("perdure.db*")) == []


def test_approval_by_session_id(review: Terminal) -> None:
    review("answer", REVIEW, "yes")
    assert review("resume", REVIEW).code == 3
    missing = review("approve", "nothing")
    assert (missing.code, "no approval and no session 'nothing'" in missing.err) == (1, True)
    said = review("approve", REVIEW, "--by", "grace")
    assert (said.code, "grace approved a-" in said.out, "it is approved." in said.out) == (0, True, True)
    (decided,) = review("approvals", "--all", "--json").lines
    assert [(one["voter"], one["rationale"]) for one in decided["votes"]] == [("grace", "")]
    again = review("deny", REVIEW, "--by", "grace")
    assert (again.code, "does not wait for approval" in again.err) == (1, True)


def test_several_approvals_of_a_session_are_listed_with_commands(terminal: Terminal) -> None:
    assert terminal("run", "user_gated_twice", "--id", "g").code == 3
    ids = [one["id"] for one in terminal("approvals", "--json").lines]
    for command in ("approve", "deny"):
        said = terminal(command, "g")
        assert (said.code, "waits for 2 approvals" in said.err) == (1, True)
        assert [id for id in ids if f"perdure {command} {id}  user_merge(pr=" not in said.err] == []
    wide = terminal("approve", ids[0], "--for", "tool", "--by", "grace")
    assert (wide.code, "asks every time" in wide.err) == (2, True)
    assert terminal("approve", ids[0], "--by", "grace").code == 0
    assert terminal("approve", "g", "--by", "grace").code == 0  # the one that is left
    assert terminal("resume", "g").code == 0


def test_width_of_an_approval_on_the_command_line(work: AgentFolder) -> None:
    commands = [calls("Next.", ("run_command", {"command": f"touch {name}"})) for name in "bbcd"]
    assert work(*work.script(*commands, "Done."), "--unsandboxed").code == 3
    said = work("approve", "one", "--for", "this")
    assert (said.code, "The same call needs no approval in this session any more." in said.out) == (0, True)
    assert work("resume", "one").code == 3
    (asked,) = work("approvals", "--json").lines
    assert (asked["intent"]["command"], asked["may_remember"], asked["reason"]) == ("touch c", True, "optional")
    assert asked["about"]["folder"] == str(work.folder)
    whole = work("approvals", asked["id"]).out
    assert f"folder   {work.folder}" in whole
    said = work("approve", "one", "--for", "tool")
    assert (said.code, "Calls of run_command need no approval in this session any more." in said.out) == (0, True)
    assert work("resume", "one").code == 0
    assert (work.folder / "d").exists()
