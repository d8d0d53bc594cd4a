"""What a person mistypes, and what is said of it: one sentence, a code, and what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from tests.cli.agents import Work
from tests.cli.terminal import Terminal, write_settings


def test_words_without_quotes_are_told_to_be_quoted_whoever_names_the_model(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_MODEL", "scripted:nothing.json")
    said = terminal("run", "fix", "the", "test")
    assert (said.code, "perdure run 'fix the test'" in said.err) == (2, True)


def test_a_program_is_still_told_how_its_arguments_are_given(terminal: Terminal) -> None:
    said = terminal("run", "desk_values", "seven")
    assert (said.code, "number=VALUE" in said.err) == (2, True)


def test_a_file_is_no_folder_to_work_in(work: Work) -> None:
    said = work(*work.script("Done."), "--repo", str(work.folder / "a.py"))
    assert (said.code, "is a file" in said.err) == (2, True)


@pytest.mark.parametrize("amount", ["nan", "inf", "-nan"])
def test_a_cost_that_is_no_number_is_no_limit(amount: str, work: Work) -> None:
    said = work(*work.script("Done."), "--once", "--cost", amount)
    assert (said.code, "Traceback" in said.err, "--cost" in said.err) == (2, False, True)


@pytest.mark.parametrize("words", [("show", "{}"), ("run", "desk_talk", "{}"), ("run", "{}"), ("{}",)])
def test_a_long_argument_is_not_read_out(words: tuple[str, ...], terminal: Terminal) -> None:
    terminal("run", "desk_talk", "--id", "t")
    for more in ((), ("--json",)):
        said = terminal(*(word.format("x" * 100_000) for word in words), *more)
        assert (said.code in (1, 2), len(said.err) < 1000, "x" * 60 in said.err) == (True, True, True)


def test_an_error_that_nobody_foresaw_is_a_sentence_and_its_traceback_can_be_had(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    def ls() -> None:
        raise KeyError("odd")

    module = ModuleType("perdure.cli.commands.ls")
    module.__dict__["ls"] = ls
    monkeypatch.setitem(sys.modules, "perdure.cli.commands.ls", module)
    said = terminal("ls")
    assert (said.code, "KeyError: 'odd'" in said.err, "Traceback" in said.err) == (1, True, False)
    assert said.err.startswith("error: ")
    assert "PERDURE_DEBUG=1" in said.err
    monkeypatch.setenv("PERDURE_DEBUG", "1")
    assert "Traceback" in terminal("ls").err


def test_a_mistyped_name_in_the_environment_is_said_and_stops_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal("run", "desk_talk", "--id", "t")
    monkeypatch.setenv("PERDURE_ZEBRA", "somebody's own")
    assert terminal("ls").err == ""
    monkeypatch.setenv("PERDURE_STOER", "elsewhere.db")
    said = terminal("ls")
    assert (said.code, "PERDURE_STOER" in said.err, "PERDURE_STORE?" in said.err) == (0, True, True)
    assert terminal("ls", "--json").err == ""


def test_settings_of_the_right_kind_are_taken(
    terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERDURE_STORE")
    write_settings('store = "own.db"\nconnections = 3\napp = ["json", "math"]\n')
    assert terminal("run", "desk_talk", "--id", "t").code == 3
    assert (folder / "own.db").exists()


def test_bytes_that_are_no_text_are_refused_in_the_environment_too(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_BY", "\udcff")
    said = terminal("run", "desk_talk", "--id", "t")
    assert (said.code, "`by`" in said.err) == (2, True)


def test_nothing_is_said_to_type_for_a_store_that_is_gone(work: Work) -> None:
    failed = work("run", "desk_fails", "--store", "memory:")
    assert (failed.code, "memory:" in failed.err, "hint" in failed.err) == (1, False, False)
    waited = work("run", "desk_talk", "--store", "memory:")
    assert (waited.code, "perdure " in waited.out) == (3, False)
    answered = work(*work.script("Done."), "--store", "memory:")
    assert (answered.code, answered.out.strip(), "memory:" in answered.err) == (0, "Done.", False)
