"""The state of an agent as a fold of its lines, and where a compacted context may begin."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agent.history.compaction import _cut
from perdure.agent.history.transcript import ORIGINS, Line, State, line_of


def line(number: int, role: str, **more: Any) -> Line:
    return line_of("u", number, 0, {"role": role, "content": "x" * 400} | more)


def test_origins_beyond_the_limit_are_kept_by_kind() -> None:
    state = State()
    for number in range(1, ORIGINS + 1):
        state.add(line(number, "tool", origin=f"file:{number}"))
    state.add(line(ORIGINS + 1, "tool", origin="web:http://example.org"))
    state.add(line(ORIGINS + 2, "tool", origin="web:http://example.com"))
    assert (state.origins[0], state.origins[ORIGINS:]) == ("file:1", ["web:*"])


@pytest.mark.parametrize("keep", range(0, 1500, 50))
def test_a_compacted_context_never_begins_with_a_tool_result(keep: int) -> None:
    roles = ["user", "assistant", "tool", "tool", "tool", "assistant", "tool", "tool", "user", "assistant", "tool"]
    lines = [line(number, role) for number, role in enumerate(roles, 1)]
    cut = _cut(lines, keep)
    assert lines[cut].role in ("user", "assistant")


def test_the_name_that_a_provider_reports_is_no_change_of_the_model() -> None:
    state = State()
    state.add(line(1, "user", model="anthropic:claude-sonnet"))
    state.add(line(2, "assistant", model="claude-sonnet-20260101"))
    assert state.model == "anthropic:claude-sonnet"
