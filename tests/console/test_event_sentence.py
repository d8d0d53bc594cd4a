"""Events of a session as sentences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perdure.console.text.event_sentence import describe, is_quiet

TITLES = {"t-1": "find the bug"}


def sentence(kind: str, body: Any) -> tuple[str, str]:
    return describe(SimpleNamespace(kind=kind, body=body), TITLES)  # type: ignore[arg-type]


def waits(**row: Any) -> dict[str, Any]:
    return {"rows": {"wait": [row]}}


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("task.changed", {"rows": {"task": [{"id": "t-1", "state": "done"}]}}, ("task", "find the bug is done")),
        ("task.changed", {"rows": {"task": [{"id": "t-2", "state": "done"}]}}, ("task", "t-2 is done")),
        ("wait.opened", waits(kind="doubt", ref="e-1"), ("waits", "for a person to say what happened")),
        ("wait.opened", waits(kind="input", ref=None), ("waits", "for a message")),
        ("wait.opened", waits(kind="input", ref="q", detail={"question": "Why?"}), ("waits", "for an answer: Why?")),
        ("wait.resolved", {"kind": "approval"} | waits(answer="denied"), ("wait ended", "the approval is denied")),
        ("wait.resolved", {"kind": "input"} | waits(answer={"message": "m"}), ("wait ended", "a message came")),
        ("wait.resolved", {"kind": "new"} | waits(answer=None), ("wait ended", "new")),
        ("note", {"workspace": "w", "folder": "/f", "host": "h"}, ("files", "in /f on h")),
        ("note", {"compaction": "failed", "why": None, "identity": "os:0"}, ("note", "compaction failed")),
        ("pause.requested", {"over": True, "identity": "os:0"}, ("resumed", "")),
        ("session.finished", {"rows": {"session": {"status": "failed", "error": {"message": "no"}}}},
         ("ended", "failed: no")),
        ("step.recorded", {"step": {"name": ":task-change"}}, ("step", "task change")),
        ("step.recorded", {"steps": 1}, ("step", "steps 1")),
        ("approval.voted", {"decision": "denied", "approval": "a-1", "because": "no"}, ("vote", "denied: no")),
        ("event.erased", None, ("erased", "its content was erased")),
        ("of.another.version", [1], ("of.another.version", "[1]")),
    ],
)  # fmt: skip
def test_an_event_says_what_happened(kind: str, body: Any, said: tuple[str, str]) -> None:
    assert sentence(kind, body) == said


@pytest.mark.parametrize(("name", "quiet"), [(":task", True), ("read", False)])
def test_a_step_that_repeats_its_event_is_quiet(name: str, quiet: bool) -> None:
    event: Any = SimpleNamespace(kind="step.recorded", body={"step": {"name": name}})
    assert is_quiet(event) is quiet
