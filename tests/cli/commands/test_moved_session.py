"""A session that was moved to another store, as its old store shows it."""

from __future__ import annotations

import pytest

from tests.cli.support.agents import AgentFolder


@pytest.mark.parametrize("words", [("resume", "one"), ("attach", "one"), ("ls",)], ids=lambda words: words[0])
def test_show_reports_that_a_session_was_moved(words: tuple[str, ...], work: AgentFolder) -> None:
    assert work(*work.script("Done.")).code == 0
    assert work("export", "one", "--move", "--to", "one.zip").code == 0
    said = work(*words)
    assert any(word in said.out + said.err for word in ("moved", "sealed", "elsewhere"))


def test_moved_session_needs_no_person_here(work: AgentFolder) -> None:
    assert work(*work.script("Done.")).code == 0
    assert work("export", "one", "--move", "--to", "one.zip").code == 0
    for words in (("resume", "one"), ("resume", "one", "--plan"), ("attach", "one"), ("send", "one", "more")):
        said = work(*words)
        assert (said.code, said.out) == (1, "")
        assert "it was moved to another store on 20" in said.err
        assert "--take-back" in said.err
    assert "needs a person" not in work("ls").out
    assert "No session matches" in work("ls", "--waiting-for", "input").out
    assert "perdure send" not in work("show", "one").out + work("brief", "one").out
    assert work("resume", "--last").code == 1
    assert work("import", "one.zip", "--take-back").code == 0
    assert work("resume", "one").code == 0


def test_history_of_a_copy_is_not_reported_as_moved(work: AgentFolder) -> None:
    assert work(*work.script("Done.")).code == 0
    assert work("export", "one", "--to", "one.zip").code == 0
    assert work("import", "one.zip", "--store", "other.db").code == 0
    (history,) = (one["id"] for one in work("ls", "--json", "--store", "other.db").lines if one["sealed_at"])
    said = work("resume", history, "--store", "other.db")
    assert (said.code, "was imported as the history of a copy" in said.err) == (1, True)
