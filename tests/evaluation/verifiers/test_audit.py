"""The verdict on answers notices a fact that is missing, invented or repeated, and a truth that shows nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.evaluation.verifiers.audit import DAY, verify

TRUTH: dict[str, Any] = {
    "doubts": [["s-1", "e-1", "lost"], ["s-2", "e-2", "lost"]],
    "retries": [["shop", "s-1"], ["shop", "s-2"]],
    "costs": [["s-1", "ada", "large", 0, 5], ["s-2", "ada", "small", 0, 6], ["s-3", "ada", "small", DAY, 7]],
    "refused": [["s-1", "e-9", "policy-denied"]],
    "targets": [["s-1", "e-1", "path:deploy/a"], ["s-1", "e-2", "path:src/a"]],
}
RIGHT: dict[str, Any] = {
    "doubts": [["s-2", "e-2", "lost"], ["s-1", "e-1", "lost"]],
    "retries": [["shop", 2]],
    "costs": [["1970-01-01", "ada", 11], ["1970-01-02", "ada", 7]],
    "refused": [["s-1", "e-9"]],
    "targets": [["s-1", "e-1", "path:deploy/a"]],
}


def judged(folder: Path, said: dict[str, Any], truth: dict[str, Any] | None = None) -> dict[str, Any]:
    (folder / "truth-100.json").write_text(json.dumps({"truth": TRUTH if truth is None else truth}))
    lines = [json.dumps({"question": question, "facts": facts}) for question, facts in said.items()]
    (folder / "answers-100.jsonl").write_text("\n".join(lines))
    return verify(folder)


def test_answers_that_are_the_truth_are_right(folder: Path) -> None:
    found = judged(folder, RIGHT)
    assert found["verdicts"] == {"questions": 5, "right": 5, "wrong": 0, "not_answered": 0, "facts": 7}
    assert (found["findings"], found["void"]) == ({}, "")


@pytest.mark.parametrize(
    ("question", "facts"),
    [
        ("doubts", RIGHT["doubts"][:1]),
        ("doubts", RIGHT["doubts"] + RIGHT["doubts"][:1]),
        ("doubts", [["s-1", "e-1", "lost"], ["s-2", "e-2", "other"]]),
        ("retries", [["shop", 1]]),
        ("costs", [["1970-01-01", "ada", 18]]),
        ("costs", [["1970-01-01", "ada", 11], ["1970-01-02", "ada", 8]]),
        ("targets", TRUTH["targets"]),
        ("refused", []),
    ],
)
def test_an_answer_that_differs_is_wrong_and_named(folder: Path, question: str, facts: Any) -> None:
    found = judged(folder, RIGHT | {question: facts})
    assert (found["verdicts"]["right"], found["verdicts"]["wrong"]) == (4, 1)
    assert list(found["findings"]) == [f"{question} at 100"]


def test_what_a_system_cannot_say_is_counted_apart(folder: Path) -> None:
    found = judged(folder, RIGHT | {"doubts": None})
    assert (found["verdicts"]["right"], found["verdicts"]["not_answered"]) == (4, 1)


def test_an_empty_truth_or_answer_shows_nothing(folder: Path) -> None:
    assert judged(folder, RIGHT, TRUTH | {"doubts": []})["void"] == "the truth about doubts is empty"
    assert judged(folder, {})["void"] == "nothing was answered"
