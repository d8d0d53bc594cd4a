"""`perdure principals` and `perdure withdraw`: what is printed, and what is refused."""

from tests.cli.support.terminal import Terminal


def test_principals_are_added_listed_changed_and_removed(terminal: Terminal) -> None:
    made = terminal("principals", "add", "ada", "--role", "owner")
    assert (made.code, "ada is a principal now. Roles: owner." in made.out) == (0, True)
    terminal("principals", "add", "grace", "--role", "approver", "--login", "db:grace")
    changed = terminal("principals", "set", "grace", "--role", "operator", "--login", "os:7", "--json")
    assert (changed.json["roles"], changed.json["logins"]) == (["operator"], ["db:grace", "os:7"])
    assert [one["name"] for one in terminal("principals", "--json").lines] == ["ada", "grace"]
    assert terminal("principals", "rm", "grace", "--login", "os:7").code == 0
    assert terminal("principals", "set", "grace", "--no-role").out.startswith("grace is changed. Roles: none.")
    assert terminal("principals", "rm", "grace").out.startswith("grace is removed.")
    assert "grace" not in terminal("principals").out


def test_wrong_changes_of_principals_are_refused(terminal: Terminal) -> None:
    assert terminal("principals", "add", "grace", "--login", "db:grace").code == 1
    terminal("principals", "add", "ada")
    for code, wrong in (
        (1, "add ada"),
        (2, "add b --role root"),
        (2, "add b --login b"),
        (1, "set b --no-role"),
        (2, "set ada"),
        (2, "set ada --role owner --no-role"),
        (1, "rm ada"),
        (1, "rm b"),
    ):
        assert terminal("principals", *wrong.split()).code == code, wrong


def test_unknown_approvals_are_not_withdrawn(terminal: Terminal) -> None:
    terminal("principals", "add", "ada")
    assert terminal("withdraw", "a-1", "--because", "x").code == 1
    assert terminal("withdraw", "a-1").code == 2
