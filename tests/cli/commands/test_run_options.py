"""`perdure run` with the options of a start, and with one session for each line of a file."""

import json

import pytest

from tests.cli.support.terminal import PROGRAMS_FILE, Terminal

APP = ("--app", PROGRAMS_FILE)


def test_options_of_a_start_reach_the_session(terminal: Terminal) -> None:
    options = ["--queue", "builds", "--priority", "3", "--key", "k", "--retries", "2", "--timeout", "1h", "--pin"]
    ended = terminal("run", "user_values", "number=3", "--id", "s", *options, *APP)
    assert ended.code == 0, ended.err
    shown = terminal("show", "s", "--json").json["session"]
    found = {name: shown[name] for name in ("queue", "priority", "concurrency_key", "max_retries")}
    assert found == {"queue": "builds", "priority": 3, "concurrency_key": "k", "max_retries": 2}
    assert shown["deadline_at"] is not None
    assert shown["pinned_at"] is not None


def test_a_closed_queue_refuses_with_its_code(terminal: Terminal) -> None:
    terminal("queues", "set", "builds", "--close")
    refused = terminal("run", "user_values", "number=3", "--queue", "builds", *APP)
    assert (refused.code, "[queue-closed]" in refused.err) == (1, True)
    assert "`perdure queues set builds --open`" in refused.err


@pytest.mark.parametrize(
    "wrong",
    [["--debounce", "5s"], ["--on-conflict", "keep"], ["--timeout", "0s"], ["--not-before", "2030-01-31T08:00"],
     ["--not-before", "soon"], ["--retries", "-1"], ["--queue", "a b"]],
)  # fmt: skip
def test_wrong_options_are_refused(terminal: Terminal, wrong: list[str]) -> None:
    assert terminal("run", "user_values", "number=3", *wrong, *APP).code == 2


def test_each_line_starts_a_session_and_a_repetition_starts_the_rest(terminal: Terminal) -> None:
    file = terminal.folder / "lines.jsonl"
    lines = [{"id": "first", "number": 1}, {"id": "second", "number": 2, "text": "y"}]
    file.write_text("\n\n".join(json.dumps(line) for line in lines) + "\n")
    run = ("run", "user_values", "text=x", "--each", str(file), "--queue", "builds", *APP)
    assert terminal(*run).out == "first\nsecond\n"
    assert terminal(*run, "--json").lines[1]["session"] == {"id": "second", "program": "user_values"}
    shown = terminal("show", "second", "--json").json["session"]
    assert (shown["arguments"]["number"], shown["arguments"]["text"], shown["queue"]) == (2, "y", "builds")
    assert terminal("show", "first", "--json").json["session"]["arguments"]["text"] == "x"
    assert len(terminal("ls", "--json").lines) == 2


def test_ids_of_lines_are_a_prefix_and_a_number(terminal: Terminal) -> None:
    file = terminal.folder / "lines.jsonl"
    file.write_text('{"number": 1}\n{"number": 2}\n')
    assert terminal("run", "user_values", "--each", str(file), "--id", "job", *APP).out == "job-1\njob-2\n"
    assert len(terminal("run", "user_values", "--each", str(file), *APP).out.splitlines()) == 2


@pytest.mark.parametrize(
    "wrong",
    ["[1]", "{", '{"number": "x"}', '{"colour": 1, "number": 1}', '{"id": 3, "number": 1}', '{"id": "", "number": 1}'],
)
def test_a_wrong_line_is_named_and_nothing_starts(terminal: Terminal, wrong: str) -> None:
    file = terminal.folder / "lines.jsonl"
    file.write_text('{"number": 1}\n' + wrong + "\n")
    refused = terminal("run", "user_values", "--each", str(file), *APP)
    assert (refused.code, "Line 2 of" in refused.err) == (2, True)
    assert terminal("ls", "--json").out == ""


def test_each_needs_a_program_and_a_file(terminal: Terminal) -> None:
    for wrong in (["run", "no_such", "--each", "x"], ["run", "user_values", "--each", "no-such-file"],
                  ["run", "user_values", "--each", "x", "--detach"]):  # fmt: skip
        assert terminal(*wrong, *APP).code == 2, wrong
    assert "--each cannot be used with --detach." in terminal("run", "user_values", "--each", "x", "--detach", *APP).err
