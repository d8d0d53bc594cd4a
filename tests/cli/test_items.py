"""The vocabulary that scripts read: complete, documented, in order, and each text told once."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from perdure.cli import items
from perdure.cli.hearing import Hearing
from perdure.cli.items import KINDS, TYPES, Items
from perdure.domain.event import Event
from tests.cli.agents import Work, calls
from tests.tidy.source import text

PAGE = "docs/how-to/json-stream.md"


def event(number: int, kind: str, body: Any, **more: Any) -> Event:
    given: dict[str, Any] = {
        "session_uid": "u",
        "actor": "ada",
        "at": number * 1_000_000,
        "effect_id": None,
        "move_id": "m",
    } | more
    return Event(number=number, kind=kind, body=body, salt=None, digest="d", chain="c", **given)


def reply(number: int, said: str, *names: str) -> Event:
    made = [{"id": f"c{i}", "name": name, "arguments": {}} for i, name in enumerate(names)]
    return event(number, "message", {"role": "assistant", "content": said, "calls": made})


def test_every_type_and_kind_that_is_emitted_is_documented_and_no_other() -> None:
    tables = re.findall(r"^\| `([a-z_.]+)` \|", text(PAGE), re.MULTILINE)
    assert tables == [*TYPES, *KINDS]
    source = text(Path(items.__file__)) + "".join(
        text(f"src/perdure/cli/{name}.py") for name in ("hearing", "showing", "moving", "run")
    )
    emitted = {one.value for one in ast.walk(ast.parse(text(Path(items.__file__)))) if isinstance(one, ast.Constant)}
    assert set(TYPES) - {"error"} <= {one for one in emitted if isinstance(one, str)}
    assert set(re.findall(r'"((?:session|turn|item)\.(?:started|updated|completed|waiting|finished))"', source)) <= {
        *TYPES
    }
    assert '"type": "error"' in source


def test_the_status_words_are_documented() -> None:
    words = {"called", "planned", "running", "done", "unknown", *items.ENDS.values()}
    assert [word for word in sorted(words) if f"`{word}`" not in text(PAGE)] == []


def test_a_piece_waits_for_what_was_on_record_and_the_whole_is_not_told_again() -> None:
    hearing = Hearing(Items())
    assert hearing.delta("Hel") == []
    assert hearing.wants_cursor
    assert not hearing.wants_cursor
    assert hearing.cursor(2) == []  # event 2 was on record when it was heard, and was not told yet
    hearing.event(event(1, "lease.acquired", {}))
    begun = hearing.event(event(2, "message", {"role": "user", "content": "hi"}))
    assert [one["type"] for one in begun] == ["turn.started", "item.completed", "item.started", "item.updated"]
    assert begun[-1]["item"]["delta"] == "Hel"
    assert hearing.delta("lo")[0]["item"]["delta"] == "lo"
    whole = hearing.event(reply(3, "Hello!"))
    assert [(one["type"], one.get("item", {}).get("delta"), one.get("item", {}).get("text")) for one in whole] == [
        ("item.updated", "!", None), ("item.completed", None, "Hello!"), ("turn.completed", None, None),
    ]  # fmt: skip
    assert {one["item"]["id"] for one in whole[:2]} == {begun[-1]["item"]["id"]}


def test_pieces_of_the_next_reply_that_come_before_the_record_of_this_one_are_kept() -> None:
    hearing = Hearing(Items())
    for piece in ("One.", "Two."):
        hearing.delta(piece)
    assert hearing.wants_cursor
    hearing.cursor(9)
    first = hearing.event(reply(3, "One.", "read_file"))
    assert [one["item"]["text"] for one in first if one.get("item", {}).get("kind") == "message"] == ["One."]
    assert hearing.wants_cursor
    (begun, more) = hearing.cursor(3)
    assert (begun["type"], more["item"]["delta"]) == ("item.started", "Two.")


def test_a_reply_that_began_anew_is_told_whole() -> None:
    hearing = Hearing(Items())
    hearing.delta("I thi")
    assert hearing.wants_cursor
    hearing.cursor(0)
    hearing.delta("I know.")
    (_, whole, _) = hearing.event(reply(1, "I know."))
    assert (whole["type"], whole["item"]["text"]) == ("item.completed", "I know.")


@pytest.mark.parametrize(
    "kind", ["message", "effect.acknowledged", "wait.opened", "session.parked", "approval.decided"]
)
@pytest.mark.parametrize(
    "body", [None, [], {}, {"rows": None}, {"role": "assistant", "calls": [None]}, {"role": "tool"}]
)
def test_a_body_that_nobody_can_read_is_passed_over(kind: str, body: Any) -> None:
    Items().event(event(1, kind, body, effect_id="e-1"))


def test_a_script_reads_a_run_from_its_start_to_where_a_person_must_decide(work: Work) -> None:
    touch = ("run_command", {"command": "touch b"})
    look = ("read_file", {"path": "a.py"})
    said = work(*work.script(calls("I look.", look, touch), "Done."), "--unsandboxed", "--json")
    assert (said.code, said.err) == (3, "")
    heard = [one for one in said.lines if one["type"] != "item.completed" and one.get("item", {}).get("role")]
    assert [one["type"] for one in said.lines if one not in heard and one["type"] != "item.updated"] == [
        "session.started", "turn.started", "item.completed", "item.completed", "item.started",
        "item.started", "item.completed", "item.started", "session.waiting",
    ]  # fmt: skip
    deltas = "".join(one["item"].get("delta", "") for one in heard)
    assert deltas in ("I look.", "")  # a reply that is on record at once is told whole
    (approval,) = [one["item"] for one in said.lines if one.get("item", {}).get("kind") == "approval"]
    assert (approval["name"], approval["arguments"]["command"]) == ("run_command", "touch b")
    assert work("approve", approval["id"], "--because", "fine").code == 0
    went_on = work("resume", "one", "--json")
    assert went_on.code == 0
    (done,) = [one["item"] for one in went_on.lines if one["type"] == "item.completed" and "seconds" in one["item"]]
    assert (done["name"], done["status"], done["arguments"]) == ("run_command", "done", {"command": "touch b"})
    assert [one["type"] for one in went_on.lines[-2:]] == ["turn.completed", "session.waiting"]
    again = work("attach", "one", "--json")
    calls_ = [one["item"] for one in again.lines if one["type"] == "item.completed" and "seconds" in one["item"]]
    assert [(one["name"], one["status"]) for one in calls_] == [("read_file", "done"), ("run_command", "done")]
    (turn,) = [one for one in again.lines if one["type"] == "turn.completed"]
    assert turn["usage"] == {"tokens_in": 0, "tokens_out": 0, "cost_micros": 0, "model_calls": 2}
    assert {one["type"] for one in again.lines} <= set(TYPES)
    assert {one["item"]["kind"] for one in again.lines if "item" in one} <= set(KINDS)


def test_an_error_ends_a_stream(work: Work) -> None:
    begin = work.script("Hello.")
    assert work(*begin, "--json").lines[-1]["type"] == "session.waiting"
    (work.terminal.folder / "script.json").write_text("no json")
    work("send", "one", "more")
    said = work("resume", "one", "--json")
    assert (said.code, said.lines[-1]["type"], said.lines[-1]["code"]) == (2, "error", "config")


def test_a_program_is_a_stream_of_the_same_words(work: Work) -> None:
    work.terminal.run("desk_review", "r")
    said = work("attach", "r", "--json")
    assert (said.code, said.lines[0]["session"]["id"], said.lines[-1]["type"]) == (3, "r", "session.waiting")
    (post,) = [one["item"] for one in said.lines if one["type"] == "item.completed"]
    assert (post["kind"], post["name"], post["status"]) == ("tool_call", "desk_post", "done")
