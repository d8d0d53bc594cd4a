"""`perdure facts set|forget|verify`, `orders`, `tasks add|done|drop` and `decisions settle`."""

from __future__ import annotations

import pytest

from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.terminal import Terminal


@pytest.fixture
def reviewed(terminal: Terminal) -> Terminal:
    assert terminal.run("user_review", "review-7").code == 3
    return terminal


def test_fact_is_set_verified_and_forgotten(reviewed: Terminal) -> None:
    terminal, place = reviewed, ("--scope", "customer:42")
    made = terminal("facts", "set", "limit", "5", *place, "--verify", "ask \x1b[2Jada", "--stale-after", "7d")
    assert (made.code, made.out) == (0, "The fact limit of customer:42 is recorded, version 1.\n")
    assert terminal("facts", "set", "limit", "[6]", *place, "--as-json", "--by", "grace", "--json").json["value"] == [6]
    assert terminal("facts", "verify", "limit", *place).code == 0
    (known,) = terminal("facts", *place, "--json").lines
    assert (known["value"], known["version"], known["updated_by"]) == ([6], 2, "grace")
    assert "customer:42" in terminal("facts").out
    assert terminal("facts", "forget", "limit", *place).code == 0
    assert terminal("facts", *place).out == "There are no facts in the scope customer:42.\n"
    assert "[not-found]" in terminal("facts", "forget", "limit", *place).err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["k", "v"], 2),
        (["k", "v", "--scope", "a", "--repo", "."], 2),
        (["k", "v", "--scope", "orders"], 2),
        (["k", "{", "--scope", "a", "--as-json"], 2),
        (["k", "v", "--scope", "a", "--expected", "3"], 1),
        (["k", "v", "--session", "nothing"], 1),
    ],
)
def test_wrong_fact_is_refused_in_one_sentence(reviewed: Terminal, arguments: list[str], code: int) -> None:
    refused = reviewed("facts", "set", *arguments)
    assert (refused.code, refused.out, refused.err.count("error: ")) == (code, "", 1)


def test_orders_are_added_listed_and_removed(terminal: Terminal) -> None:
    assert terminal("orders", "add", "Run the tests.", "--name", "tests").code == 0  # it also creates the store
    assert terminal("orders", "add", "Be brief.", "--name", "style", "--everywhere").code == 0
    assert terminal("orders", "add", "Never push.", "--name", "push", "--repo", "/elsewhere").code == 0
    assert [one["key"] for one in terminal("orders", "--json").lines] == ["style", "tests"]
    (mine,) = [one for one in terminal("orders", "ls", "--json").lines if one["key"] == "tests"]
    assert (mine["repository"], mine["updated_by"]) == (str(terminal.folder), "ada")
    assert "Never push." in terminal("orders", "ls", "--all").out
    assert terminal("orders", "rm", "tests").out == "The standing order tests is removed.\n"
    assert "[not-found]" in terminal("orders", "rm", "style").err  # it is for every agent
    assert terminal("orders", "rm", "style", "--everywhere").code == 0
    assert terminal("orders").out == f"There are no standing orders for {terminal.folder}.\n"


def test_plan_of_an_agent_is_changed_by_a_person(work: AgentFolder) -> None:
    decide = ("decide", {"decision": "comment", "because": "only style"})
    started = [*work.script(calls("I decide.", decide), "Done."), "--tool", "decide"]
    assert work(*started).code == 0
    added = work("tasks", "add", "one", "Check the docs", "--json").json
    part = work("tasks", "add", "one", "Check the links", "--below", added["id"], "--json").json
    assert "[illegal-move]" in work("tasks", "done", "one", added["id"]).err  # a part of it is open
    assert work("tasks", "drop", "one", part["id"], "--because", "no links").code == 0
    assert work("tasks", "done", "one", added["id"]).out == f"Task {added['id']} is done: Check the docs\n"
    assert work("tasks", "one").out.splitlines() == [
        f"[x] Check the docs  {added['id']}",
        f"    [-] Check the links  {part['id']} (no links)",
    ]
    (choice,) = work("decisions", "one", "--json").lines
    assert work("decisions", "settle", "one", choice["id"], "commented", "--by", "grace").code == 0
    assert all(text in work("decisions", "one").out for text in ("commented", choice["id"]))
    assert "grace" in work("show", "one", "--last", "3", "--json").out


def test_records_of_a_running_program_are_not_changed_by_a_person(reviewed: Terminal) -> None:
    (choice, *_) = reviewed("decisions", "review-7", "--json").lines
    for command in (("tasks", "drop", "review-7", "read"), ("decisions", "settle", "review-7", choice["id"], "x")):
        refused = reviewed(*command)
        assert (refused.code, "[illegal-move]" in refused.err) == (1, True)


def test_options_may_precede_a_subcommand_or_an_id(reviewed: Terminal) -> None:
    store = str(reviewed.folder / "perdure.db")
    assert reviewed("facts", "--json", "--store", store, "set", "k", "v", "--scope", "a").json["version"] == 1
    assert reviewed("facts", "--scope", "set").out == "There are no facts in the scope set.\n"
    (effect, *_) = [one["id"] for one in reviewed("effects", "--json").lines]
    assert reviewed("effects", f"--store={store}", "--json", effect).json["id"] == effect


@pytest.mark.parametrize("command", ["facts", "tasks", "decisions", "orders", "artifacts", "effects"])
def test_help_of_a_listing_names_its_subcommands(terminal: Terminal, command: str) -> None:
    shown = terminal(command, "--help")
    assert (shown.code, "Subcommands:" in shown.out) == (0, True)
