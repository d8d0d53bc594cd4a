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
    number = terminal("queues", "set", "builds", "--concurrency", "x")
    assert "'x' is not a number from 0 on, and not `none`." in number.err
    for wrong in (["--concurrency", "-1"], ["--per-key", "0"], ["--rate", "ten"], ["--rate", "0/1m"], ["--rate", "3/"]):
        refused = terminal("queues", "set", "builds", *wrong)
        assert refused.code == 2, wrong
    nothing = terminal("queues", "set", "builds")
    assert (nothing.code, "No change of the queue builds was given." in nothing.err) == (2, True)
    assert terminal("queues").out == "No queue has sessions or limits.\n"


def test_failed_sessions_are_counted(terminal: Terminal) -> None:
    terminal("run", "user_fails", "--id", "s-1", "--app", PROGRAMS_FILE)
    (listed,) = terminal("queues", "--json").lines
    assert (listed["name"], listed["failed"], listed["ready"]) == ("default", 1, 0)


def test_failed_sessions_are_retried_and_archived_in_bulk(terminal: Terminal) -> None:
    app = ("--app", PROGRAMS_FILE)
    for id in ("s-1", "s-2"):
        terminal("run", "user_fails", "--id", id, "--queue", "builds", *app)
    terminal("run", "user_fails", "--id", "s-3", *app)
    assert [one["id"] for one in terminal("ls", "--failed", "--json").lines] == ["s-3", "s-2", "s-1"]
    planned = terminal("retry", "--all", "--queue", "builds", "--dry-run", *app)
    assert (planned.code, planned.out.splitlines()[-1]) == (0, "2 sessions would be retried.")
    refused = terminal("retry", "--all", *app)
    assert (refused.code, "3 sessions would be retried, and no one can be asked" in refused.err) == (2, True)
    nothing = terminal("retry", "--all", "--error", "no-such-code", "--yes", *app)
    assert (nothing.code, nothing.out) == (0, "No failed session matches.\n")
    unmatched = terminal("retry", "--all", "--error", "no-such-code", "--yes", "--json", *app)
    assert unmatched.json == {"changed": [], "refused": {}}
    done = terminal("retry", "--all", "--queue", "builds", "--error", "ValueError", "--since", "1h", "--yes", *app)
    assert (done.code, done.out) == (0, "2 sessions are retried.\n")
    (builds, default) = terminal("queues", "--json").lines
    assert (builds["ready"], builds["failed"], default["failed"]) == (2, 0, 1)
    assert terminal("archive", "--all", "--owner", "nobody-else", "--yes").out == "No failed session matches.\n"
    assert terminal("archive", "--all", "--yes", "--json").json == {"changed": ["s-3"], "refused": {}}
    assert terminal("ls", "--failed", "--json").lines == []


def test_a_session_that_cannot_be_retried_is_named_and_the_others_continue(terminal: Terminal) -> None:
    app = ("--app", PROGRAMS_FILE)
    terminal("run", "user_gated", "--id", "denied", *app)
    assert terminal("deny", terminal.wait_of("denied"), "--because", "no", "--by", "grace").code == 0
    assert terminal("resume", "denied", *app).code == 1
    terminal("run", "user_fails", "--id", "s-1", *app)
    done = terminal("retry", "--all", "--yes", *app)
    assert (done.code, done.out) == (1, "1 session is retried.\n")
    assert "denied: Session denied cannot be retried" in done.err


def test_bulk_options_need_all_and_no_id(terminal: Terminal) -> None:
    retries = [["retry"], ["retry", "s", "--all"], ["retry", "s", "--queue", "q"], ["retry", "--all", "--detach"]]
    others = [["archive", "--all", "--undo"], ["archive", "s", "--dry-run"]]
    for wrong in retries + others:
        assert terminal(*wrong).code == 2, wrong
