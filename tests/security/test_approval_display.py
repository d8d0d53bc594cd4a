"""Attack: what a person is asked to approve hides its dangerous part: cut off, scrolled away, or invisible."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.text.intent import TOTAL, WIDTH, lines_of
from perdure.cli.text.plain import intent, safe
from perdure.domain.effect import Effect
from perdure.domain.session import SessionRecord
from perdure.ids import encode
from perdure.store.moves import approval
from perdure.store.moves import session as sessions
from perdure.store.moves.approval import ApprovalRequest
from perdure.store.moves.effect_input import NewEffect
from perdure.store.moves.lease import acquire
from perdure.store.store import open_store
from tests.cli.support.terminal import Terminal

PADDED = "echo ok" + " " * 3000 + "; rm -rf ~"
INVISIBLE = [
    chr(one)
    for one in (
        0x115F, 0x1160, 0x3164, 0xFFA0, 0x2800, 0xFE00, 0xFE0F, 0xE0100, 0x200B, 0x200D, 0x2060, 0xFEFF, 0x202E,
        0x2066, 0xAD, 0x34F, 0x180E, 0xE0041, 0xA0, 0x3000,
    )
]  # fmt: skip


@pytest.mark.parametrize("character", INVISIBLE, ids=[f"U+{ord(one):04X}" for one in INVISIBLE])
def test_an_invisible_character_is_shown_as_an_escape(character: str) -> None:
    shown = safe(f"rm{character}-rf")
    assert character not in shown
    assert shown.startswith("rm\\")
    assert character not in safe(character + character)


@pytest.mark.parametrize(
    "text", ["नमस्ते क्\u200dष", "می\u200cخواهم", "👩\u200d💻", "❤\ufe0f", "👩\u200d❤\ufe0f\u200d👩", "한글"]
)
def test_joiners_that_a_script_or_an_emoji_needs_stay(text: str) -> None:
    assert safe(text) == text


def test_no_character_without_a_mark_on_the_screen_passes() -> None:
    """Every character of a category that people do not see, alone between two characters."""
    hidden = [chr(one) for one in range(0x110000) if unicodedata.category(chr(one)) in ("Cc", "Cf", "Zs", "Zl", "Zp")]
    assert [one for one in hidden if one != " " and one in safe(f"a{one}b")] == []


def test_a_long_intent_in_one_line_says_how_much_is_not_shown() -> None:
    shown = intent("run_command", {"command": PADDED})
    assert "rm -rf" not in shown
    assert shown.endswith(f"… ({len('run_command(command=)') + len(encode(PADDED)) - 200} more characters)")


def asked_for(**arguments: object) -> Effect:
    given: dict[str, Any] = dict.fromkeys(Effect.__struct_fields__)
    return Effect(**(given | {"tool": "run_command", "intent": arguments}))


def test_padding_does_not_scroll_the_dangerous_part_away() -> None:
    lines = [str(one) for one in lines_of(asked_for(command=PADDED), 12)]
    assert lines == ["    command  echo ok [3000 spaces] ; rm -rf ~"]


def test_lines_and_their_width_are_bounded_and_the_rest_is_counted() -> None:
    wide = [str(one) for one in lines_of(asked_for(command="x" * 10_000), 12)]
    assert max(map(len, wide)) < WIDTH + 80
    assert f"({10_000 - WIDTH} more characters; m shows all)" in wide[0]
    many = [str(one) for one in lines_of(asked_for(**{f"argument{one}": one for one in range(1000)}), 12)]
    assert (len(many), "920 more lines; m shows all" in many[-1]) == (TOTAL + 1, True)
    whole = [str(one) for one in lines_of(asked_for(command="x" * 10_000), None)]
    assert "x" * 10_000 in whole[0]


@pytest.fixture
def asked(terminal: Terminal) -> str:
    """An approval for a command whose end is far away; its id."""
    store = open_store(str(terminal.folder / "perdure.db"))
    made: SessionRecord = store.write_now(
        sessions.create(sessions.NewSession(id="s", program="p", arguments={}), by="ada")
    )
    holder = store.write_now(acquire(made.uid, "w", nonce="n", ttl=60_000_000))
    arguments = {"command": PADDED, "note": "\u3164" + "x" * 500 + "the end"}
    planned = NewEffect(
        id="e-1", position="[0]", generation=0, tool="run_command", replay="escalate", targets="[]",
        intent=encode(arguments), intent_digest="d" * 64, idempotency_key="e" * 64,
    )  # fmt: skip
    question = ApprovalRequest(gate="agent", requester="ada", requester_may_decide=True, quorum=1, expires_at=None)
    store.write_now(approval.request(holder, planned, question))
    store.write_now(sessions.release(holder))
    store.close()
    return "a-1"


def test_approvals_counts_what_the_table_does_not_show(terminal: Terminal, asked: str) -> None:
    said = terminal("approvals")
    assert "rm -rf" not in said.out
    assert f"{asked}: 3" in said.out
    assert "characters not shown" in said.out
    assert "`perdure approvals ID` shows a whole call." in said.out


def test_one_approval_is_shown_whole(terminal: Terminal, asked: str) -> None:
    said = terminal("approvals", asked)
    assert said.code == 0
    assert "echo ok [3000 spaces] ; rm -rf ~" in said.out
    assert "\\u3164" + "x" * 500 + "the end" in said.out
    assert "\u3164" not in said.out


def test_json_carries_the_whole_intent(terminal: Terminal, asked: str) -> None:
    for said in (terminal("approvals", "--json").json, terminal("approvals", asked, "--json").json):
        assert (said["tool"], said["intent"]["command"], said["targets"]) == ("run_command", PADDED, [])
    (one,) = terminal("show", "s", "--json").json["approvals"]
    assert one["intent"]["command"] == PADDED


def test_what_was_voted_on_says_how_much_of_it_is_not_shown(terminal: Terminal, asked: str, tmp_path: Path) -> None:
    said = terminal("deny", asked, "--because", "no", "--by", "grace")
    assert (said.code, "more characters)" in said.out) == (0, True)
