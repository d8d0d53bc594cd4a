"""What is typed and pasted while a question is shown."""

from __future__ import annotations

import pytest

from perdure.testing.proxy import wait_until
from tests.cli.support.agents import AgentFolder, calls

TOUCH = ("run_command", {"command": "touch b"})


@pytest.mark.slow
def test_text_typed_before_a_question_is_not_its_answer(work: AgentFolder) -> None:
    begin = work.script(work.hold(), calls("May I?", TOUCH), "Done.")
    with work.open_terminal(*begin) as seat:
        work.until_held(seat)
        seat.type("yes that was the right file")
        seat.until("yes that was the right file")
        work.held.unlink()
        seat.until("y/s/t/n/m > ")
        seat.type("\n")
        wait_until(lambda: bool(work("approvals", "--all", "--json").out), "there is an approval")
        seat.until("y  approve this call", times=2)  # it is asked again
    assert not (work.folder / "b").exists()


@pytest.mark.slow
def test_pasted_lines_are_one_message(work: AgentFolder) -> None:
    with work.open_terminal(*work.script("First.", "Second.", "Third.")) as seat:
        seat.until("First.")
        seat.until("> ", times=2)
        seat.type("\x1b[200~one\ntwo\x1b[201~\n")
        seat.until("Second.")
        seat.type("\x04")
        seat.ended()
    said = [one["body"]["message"] for one in work("show", "one", "--last", "100", "--json").json["events"]
            if one["kind"] == "inbox.received"]  # fmt: skip
    assert said == ["one\ntwo"]
