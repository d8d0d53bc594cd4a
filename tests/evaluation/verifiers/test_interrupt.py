"""The verdict on an interrupted session: correct, asks, or wrong."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.evaluation.verifiers.interrupt import judge

DONE = {"status": "done", "waits": [], "result": "notes of 4, before-4, yes, after-4"}
WAITS = {"status": "waiting", "waits": ["program"], "result": None}


@pytest.mark.parametrize(
    ("outcome", "posted", "verdict"),
    [
        (DONE, ["after"], "correct"),
        (WAITS, [], "asks"),
        (WAITS, ["after"], "asks"),
        (DONE, [], "wrong"),
        (DONE, ["after", "after"], "wrong"),
        (DONE, ["before", "after"], "wrong"),
        (DONE | {"result": "notes of 4, before-4, yes, nothing"}, [], "wrong"),
        (WAITS, ["before"], "wrong"),
        (WAITS | {"waits": []}, [], "wrong"),
        ({"status": "failed", "waits": [], "result": None}, [], "wrong"),
        (None, [], "wrong"),
    ],
)
def test_verdict_on_one_session(outcome: dict[str, Any] | None, posted: list[str], verdict: str) -> None:
    assert judge("same", 4, outcome, posted) == verdict


def test_an_approved_effect_belongs_to_a_session_that_asked() -> None:
    done = {"status": "done", "waits": [], "result": "notes of 5, before-5, yes, after-5"}
    assert judge("same", 5, done, ["approved", "after"]) == "correct"
    assert judge("same", 5, done, ["after"]) == "wrong"
