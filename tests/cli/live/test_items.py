"""The vocabulary that scripts read: complete, documented, in order, and each text told once."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.live import items
from perdure.cli.live.item_stream import ItemStream
from perdure.cli.live.items import KINDS, TYPES, ItemBuilder
from perdure.domain.event import Event
from perdure.runtime.live_text.delta import Delta
from tests.cli.support.agents import AgentFolder, calls
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


def test_documented_types_and_kinds_are_those_emitted() -> None:
    tables = re.findall(r"^\| `([a-z_.]+)` \|", text(PAGE), re.MULTILINE)
    assert tables == [*TYPES, *KINDS]
    source = text(Path(items.__file__)) + "".join(
        text(f"src/perdure/cli/{name}.py")
        for name in ("live/item_stream", "live/session_renderer", "live/local_run", "commands/run")
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


def piece(text: str, after: int, call: str = "a", **more: Any) -> Delta:
    return Delta("u", call, after, text, **more)


def said(objects: list[Any]) -> list[tuple[str, Any]]:
    return [(one["type"], one.get("item", {}).get("delta", one.get("item", {}).get("text"))) for one in objects]


def test_live_text_waits_for_its_event_and_is_not_repeated() -> None:
    hearing = ItemStream(ItemBuilder())
    assert hearing.delta(piece("Hel", 2)) == []  # event 2 was on record when it was said, and was not told yet
    hearing.event(event(1, "lease.acquired", {}))
    begun = hearing.event(event(2, "message", {"role": "user", "content": "hi"}))
    assert [one["type"] for one in begun] == ["turn.started", "item.completed", "item.started", "item.updated"]
    assert begun[-1]["item"]["delta"] == "Hel"
    assert hearing.delta(piece("lo", 2))[0]["item"]["delta"] == "lo"
    whole = hearing.event(reply(3, "Hello!"))
    assert said(whole) == [("item.updated", "!"), ("item.completed", "Hello!"), ("turn.completed", None)]
    assert {one["item"]["id"] for one in whole[:2]} == {begun[-1]["item"]["id"]}


def test_early_live_text_of_the_next_reply_is_kept() -> None:
    hearing = ItemStream(ItemBuilder())
    assert said(hearing.delta(piece("One.", 0))) == [("item.started", ""), ("item.updated", "One.")]
    assert hearing.delta(piece("Two.", 4, "b")) == []
    first = hearing.event(reply(3, "One.", "read_file"))
    (told,) = [one["item"] for one in first if one.get("item", {}).get("kind") == "message"]
    assert told["text"] == "One."
    (begun, more) = hearing.event(event(4, "lease.acquired", {}))
    assert (begun["type"], more["item"]["delta"]) == ("item.started", "Two.")
    assert begun["item"]["id"] != told["id"]


def test_late_live_text_of_a_recorded_reply_is_dropped() -> None:
    hearing = ItemStream(ItemBuilder())
    hearing.event(event(1, "lease.acquired", {}))
    hearing.event(reply(2, "Told."))
    assert hearing.delta(piece("Told.", 1)) == []
    assert hearing.delta(piece("", 1, broke_off=True)) == []
    assert said(hearing.delta(piece("New.", 2, "b"))) == [("item.started", ""), ("item.updated", "New.")]


@pytest.mark.parametrize("noticed", [True, False])
def test_restarted_reply_marks_the_first_as_broken_off(noticed: bool) -> None:
    hearing = ItemStream(ItemBuilder())
    (first, _) = hearing.delta(piece("I thi", 0))
    ended = hearing.delta(piece("", 0, broke_off=True)) if noticed else []
    (*more, begun, update) = hearing.delta(piece("I know.", 0, "b"))
    (broken,) = ended + more
    broke_off = {"id": first["item"]["id"], "kind": "message", "role": "assistant", "delta": "", "broke_off": True}
    assert broken == {"type": "item.updated", "item": broke_off}
    assert said([begun, update]) == [("item.started", ""), ("item.updated", "I know.")]
    (_, whole, _) = hearing.event(reply(1, "I know."))
    assert (whole["type"], whole["item"]["text"]) == ("item.completed", "I know.")
    assert whole["item"]["id"] == begun["item"]["id"] != first["item"]["id"]


def test_interrupted_reply_is_marked_and_its_note_ends_the_turn() -> None:
    builder = ItemBuilder()
    cut = builder.event(event(1, "message", {"role": "assistant", "content": "Half", "stop": "cut"}))
    assert [one["type"] for one in cut] == ["turn.started", "item.completed"]
    assert cut[1]["item"]["stop"] == "cut"
    note = {"role": "note", "about": "interrupted", "content": "ada stopped the work here."}
    assert [one["type"] for one in builder.event(event(2, "message", note))] == ["item.completed", "turn.completed"]


@pytest.mark.parametrize(
    "kind", ["message", "effect.acknowledged", "wait.opened", "session.parked", "approval.decided"]
)
@pytest.mark.parametrize(
    "body", [None, [], {}, {"rows": None}, {"role": "assistant", "calls": [None]}, {"role": "tool"}]
)
def test_unreadable_event_body_is_skipped(kind: str, body: Any) -> None:
    assert ItemBuilder().event(event(1, kind, body, effect_id="e-1")) == []


@pytest.mark.slow
def test_json_stream_of_a_run_until_a_person_must_decide(work: AgentFolder) -> None:
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


def test_error_ends_a_stream(work: AgentFolder) -> None:
    begin = work.script("Hello.")
    assert work(*begin, "--json").lines[-1]["type"] == "session.waiting"
    (work.terminal.folder / "script.json").write_text("no json")
    work("send", "one", "more")
    said = work("resume", "one", "--json")
    assert (said.code, said.lines[-1]["type"], said.lines[-1]["code"]) == (2, "error", "config")


def test_program_has_the_same_stream_objects(work: AgentFolder) -> None:
    work.terminal.run("user_review", "r")
    said = work("attach", "r", "--json")
    assert (said.code, said.lines[0]["session"]["id"], said.lines[-1]["type"]) == (3, "r", "session.waiting")
    (post,) = [one["item"] for one in said.lines if one["type"] == "item.completed"]
    assert (post["kind"], post["name"], post["status"]) == ("tool_call", "user_post", "done")
