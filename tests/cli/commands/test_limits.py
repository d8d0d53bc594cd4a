"""`perdure limits`: the table, what is set, and what is refused."""

from tests.cli.support.terminal import Terminal


def test_limits_of_providers_are_set_shown_and_removed(terminal: Terminal) -> None:
    made = terminal("limits", "set", "anthropic", "--requests", "50", "--tokens", "40000")
    assert (made.code, made.out) == (0, "The limit of anthropic is now: 50 requests and 40000 tokens in a minute.\n")
    row = terminal("limits").out.splitlines()[-1].split()
    assert row == ["anthropic", "50", "40000", "-"]
    changed = terminal("limits", "set", "anthropic", "--tokens", "none", "--json")
    assert (changed.json["requests"], changed.json["tokens"]) == (50, None)
    (listed,) = terminal("limits", "--json").lines
    assert (listed["name"], listed["requests"], listed["blocked_until"]) == ("anthropic", 50, None)
    terminal("limits", "set", "anthropic", "--requests", "none")
    assert terminal("limits").out == "There are no limits.\n"


def test_wrong_limits_of_providers_are_refused(terminal: Terminal) -> None:
    for wrong in (["--requests", "0"], ["--tokens", "many"], ["--requests", str(2**41)], []):
        assert terminal("limits", "set", "anthropic", *wrong).code == 2, wrong
    assert terminal("limits", "set", "", "--requests", "1").code == 2
