"""`perdure queues`: the table, the limits, and what is refused."""

from tests.cli.support.terminal import PROGRAMS_FILE, Terminal


def test_limits_are_set_shown_and_removed(terminal: Terminal) -> None:
    made = terminal(
        "queues", "set", "builds", "--concurrency", "4", "--per-key", "1", "--per-worker", "2", "--rate", "10/1m",
        "--max-depth", "500", "--pause", "--close",
    )  # fmt: skip
    assert made.code == 0, made.err
    limits = "paused, closed, 4 at a time, 1 per key, 2 per worker, 10 in 1m, at most 500 ready"
    assert made.out == f"The queue builds has these limits now: {limits}.\n"
    assert limits in terminal("queues").out
    removed = terminal("queues", "set", "builds", "--rate", "none", "--per-key", "none", "--resume", "--open", "--json")
    assert (removed.json["rate_count"], removed.json["rate_period"], removed.json["per_key"]) == (None, None, None)
    assert (removed.json["paused_at"], removed.json["closed_at"], removed.json["concurrency"]) == (None, None, 4)
    (listed,) = terminal("queues", "--json").lines
    assert (listed["name"], listed["ready"], listed["concurrency"], listed["per_worker"]) == ("builds", 0, 4, 2)


def test_wrong_limits_are_refused(terminal: Terminal) -> None:
    for wrong in (["--concurrency", "-1"], ["--per-key", "0"], ["--rate", "ten"], ["--rate", "0/1m"], ["--rate", "3/"]):
        refused = terminal("queues", "set", "builds", *wrong)
        assert refused.code == 2, wrong
    nothing = terminal("queues", "set", "builds")
    assert (nothing.code, "Nothing of the queue builds" in nothing.err) == (2, True)
    assert terminal("queues").out == "No queue has sessions or limits.\n"


def test_failed_sessions_are_counted(terminal: Terminal) -> None:
    terminal("run", "user_fails", "--id", "s-1", "--app", PROGRAMS_FILE)
    (listed,) = terminal("queues", "--json").lines
    assert (listed["name"], listed["failed"], listed["ready"]) == ("default", 1, 0)
