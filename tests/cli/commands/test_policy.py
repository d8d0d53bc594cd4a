"""`perdure policy`: what is set, shown, compared, explained and refused."""

from pathlib import Path

import pytest

from tests.cli.support.terminal import Terminal

TEXT = """
default = "allow"

[[rule]]
name = "no-push-to-main"
answer = "deny"
reason = "main is protected."
tool = "git_push"
branch = "main"

[[rule.example]]
tool = "git_push"
branch = "main"
expect = "deny"
"""


@pytest.fixture
def text(folder: Path) -> str:
    (folder / "policy.toml").write_text(TEXT)
    return str(folder / "policy.toml")


def test_a_policy_is_set_shown_compared_and_listed(terminal: Terminal, text: str) -> None:
    made = terminal("policy", "set", text, "--because", "first", "--by", "ada")
    assert (made.code, made.out) == (0, "Version 1 of the policy is active: 1 rule, and the default is allow.\n")
    shown = terminal("policy")
    assert "version  1, active" in shown.out
    assert 'name = "no-push-to-main"' in shown.out
    assert terminal("policy", "show", "--json").json["activated_by"] == "ada"
    terminal("policy", "set", "--profile", "workspace", "--because", "second")
    assert [one["version"] for one in terminal("policy", "history", "--json").lines] == [2, 1]
    assert '-branch = "main"' in terminal("policy", "diff").out
    assert terminal("policy", "diff", "1", text).out == "They are the same.\n"
    assert terminal("policy", "diff", "2", text).out.splitlines()[:2] == ["--- version 2", "+++ the file"]
    assert terminal("policy", "show", "--at", "1", "--json").json["source"] == TEXT
    assert terminal("policy", "show", "--at", "0", "--json").json["version"] == 0
    assert terminal("policy", "show", "--at", "2001-01-01T00:00Z", "--json").json["version"] == 0


def test_an_explanation_names_every_rule_that_matches(terminal: Terminal, text: str) -> None:
    terminal("policy", "set", text, "--because", "first")
    said = terminal("policy", "explain", "--tool", "git_push", "--arg", "branch=main")
    assert "deny by the rule no-push-to-main of version 1: main is protected." in said.out
    found = terminal("policy", "explain", "--tool", "git_push", "--arg", "branch=topic", "--json").json
    assert (found["answer"], found["rule"], found["facts"]["reach"]) == ("allow", None, "outside")


def test_freeze_and_thaw_say_what_they_did(terminal: Terminal, text: str) -> None:
    terminal("policy", "set", text, "--because", "first")
    assert terminal("policy", "freeze", "--because", "an incident", "--by", "ada").code == 0
    again = terminal("policy", "freeze", "--because", "another one", "--by", "ada").out
    assert again.startswith("The policy is frozen already, since ")
    assert again.endswith(", by ada: an incident. The new reason is not recorded.\n")
    assert "by ada: an incident" in terminal("policy", "show").out
    assert terminal("policy", "thaw", "--json").json["frozen_at"] is None
    assert terminal("policy", "thaw").code == 1


def test_a_session_that_waits_for_a_frozen_policy_shows_what_to_type(terminal: Terminal, text: str) -> None:
    terminal("policy", "set", text, "--because", "first")
    terminal("policy", "freeze", "--because", "an incident", "--by", "ada")
    assert terminal.run("user_release", "r1").code == 3
    shown = terminal("show", "r1").out
    assert "is frozen, by ada: an incident" in shown
    assert "    perdure policy thaw  ends the freeze\n    perdure policy       shows the policy\n" in shown


BUDGET = """
default = "allow"

[[budget]]
name = "none"
of = "effects"
limit = 0
per = "owner-day"
"""


def test_a_session_shows_its_budget_and_how_to_lift_it(terminal: Terminal, folder: Path) -> None:
    (folder / "budget.toml").write_text(BUDGET)
    checked = terminal("policy", "check", str(folder / "budget.toml")).out
    assert checked == "The policy is correct: 0 rules, 1 budget, 0 examples.\n"
    terminal("policy", "set", str(folder / "budget.toml"), "--because", "a stop")
    assert terminal.run("user_release", "r1").code == 3
    shown = terminal("show", "r1").out
    assert "The budget none is used up: 0 of 0 effects per owner-day." in shown
    assert "perdure exemptions grant budget:none --session r1 --because TEXT" in shown
    assert "budget" in terminal("ls").out
    assert terminal("exemptions", "grant", "budget:none", "--session", "r1", "--because", "a release").code == 0
    assert terminal("resume", "r1").code == 0


@pytest.mark.parametrize(
    "wrong",
    [
        "set", "set missing.toml --because x", "set --profile none --because x", "check", "show --at tomorrow",
        "explain", "explain --tool t --arg x", "freeze", "diff 1 2 3", "unknown",
    ],
)  # fmt: skip
def test_wrong_use_is_refused(terminal: Terminal, text: str, wrong: str) -> None:
    terminal("policy", "set", text, "--because", "first")
    assert terminal("policy", *wrong.split()).code == 2


def test_a_text_whose_example_fails_is_refused_with_its_line(terminal: Terminal, text: str) -> None:
    Path(text).write_text(TEXT.replace('expect = "deny"', 'expect = "allow"'))
    for words in (("check", text), ("set", text, "--because", "x")):
        refused = terminal("policy", *words)
        assert (refused.code, "expects allow" in refused.err) == (2, True)


@pytest.mark.parametrize("wrong", ["show --at 99999999999999999999", "diff 0 99999999999999999999", "show --at 2"])
def test_a_version_that_is_not_there_is_named(terminal: Terminal, text: str, wrong: str) -> None:
    terminal("policy", "set", text, "--because", "first")
    said = terminal("policy", *wrong.split())
    assert (said.code, "There is no version" in said.err, "[not-found]" in said.err) == (1, True, True)


def test_a_call_is_explained_where_it_would_run(terminal: Terminal) -> None:
    assert terminal("policy", "set", "--profile", "workspace", "--because", "a start").code == 0
    asked = ("policy", "explain", "--tool", "run_command", "--arg", "command=make test", "--json")
    assert terminal(*asked).json["answer"] == "ask"
    assert terminal(*asked, "--sandbox", "bubblewrap", "--no-network").json["answer"] == "allow"
    assert terminal(*asked, "--sandbox", "bubblewrap", "--network").json["answer"] == "ask"
    found = terminal(*asked, "--origin", "web:example.com", "--cost", "1.5").json["facts"]
    assert (found["origins"], found["cost"]) == (["web:example.com"], 1_500_000)
    refused = terminal("policy", "explain", "e-1", "--cost", "1")
    assert (refused.code, "on record" in refused.err) == (2, True)


def test_explanation_names_a_tool_and_an_argument_that_do_not_exist(terminal: Terminal) -> None:
    terminal("policy", "set", "--profile", "full", "--because", "a start")
    asked = ("policy", "explain", "--tool")
    assert terminal(*asked, "git_psh").err == "note: No tool named git_psh is known here. Did you mean git_push?\n"
    said = terminal(*asked, "git_push", "--arg", "brnch=main")
    assert (said.code, said.err) == (0, "note: git_push has no argument brnch. Did you mean branch?\n")
    assert terminal(*asked, "git_push", "--arg", "branch=main").err == ""
    assert terminal(*asked, "qqqq").err == "note: No tool named qqqq is known here.\n"
