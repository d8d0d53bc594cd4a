"""The policies that ship: every profile is complete, and its examples hold."""

from __future__ import annotations

import pytest

from perdure.domain.policy import PROFILES, Facts, judge, shipped, shipped_text
from perdure.errors import NotFound


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_is_a_complete_text_with_examples(profile: str) -> None:
    document = shipped(profile)
    assert document.text == shipped_text(profile)
    assert all(rule.examples for rule in document.rules)
    assert all(rule.reason.endswith(".") for rule in document.rules)


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(NotFound, match="no profile open"):
        shipped("open")


@pytest.mark.parametrize(
    ("profile", "facts", "answer"),
    [
        ("default", Facts(tool="post_comment"), "allow"),
        ("default", Facts(tool="git_push"), "ask"),
        ("default", Facts(tool="mcp.mail.send"), "ask"),
        ("default", Facts(tool="mcp.mail.list", replay="pure"), "allow"),
        ("read-only", Facts(tool="read_file", reach="workspace"), "allow"),
        ("read-only", Facts(tool="write_file", reach="workspace"), "deny"),
        ("read-only", Facts(tool="post_comment"), "deny"),
        ("workspace", Facts(tool="write_file", reach="workspace"), "allow"),
        ("workspace", Facts(tool="post_comment"), "ask"),
        ("full", Facts(tool="post_comment"), "allow"),
        ("full", Facts(tool="git_push"), "allow"),
    ],
)
def test_a_profile_judges_tools(profile: str, facts: Facts, answer: str) -> None:
    assert judge(shipped(profile), facts).answer == answer
