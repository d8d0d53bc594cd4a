"""Code that uses the public names passes strict type checkers, and its marked mistakes are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from perdure.domain import literals
from perdure.domain.approval import ApprovalDecision
from perdure.domain.effect import EffectReach, EffectState, Replay, Verdict
from perdure.domain.inbox import InboxMode
from perdure.domain.session import Status
from perdure.domain.task import TaskState
from perdure.domain.wait import WaitKind

ROOT = Path(__file__).parents[2]
USER_CODE = Path(__file__).with_name("user_code.py")


def check(*command: str) -> None:
    ended = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
def test_pyright_finds_only_the_marked_mistakes() -> None:
    check("pyright", "--pythonpath", sys.executable, str(USER_CODE))


@pytest.mark.slow
def test_mypy_finds_only_the_marked_mistakes() -> None:
    check("mypy", "--strict", "--no-error-summary", str(USER_CODE))


def test_words_of_signatures_are_the_values_of_the_enums() -> None:
    assert set(get_args(literals.ReplayRule)) == set(Replay)
    assert set(get_args(literals.ReachWord)) == set(EffectReach)
    assert set(get_args(literals.VerdictWord)) == set(Verdict)
    assert set(get_args(literals.MessageMode)) == set(InboxMode)
    assert set(get_args(literals.DecisionWord)) == {*ApprovalDecision, "waiting"}
    assert set(get_args(literals.StatusWord)) == set(Status)
    assert set(get_args(literals.EffectStateWord)) == set(EffectState)
    assert set(get_args(literals.TaskStateWord)) == set(TaskState)
    assert set(get_args(literals.WaitWord)) == set(WaitKind)
