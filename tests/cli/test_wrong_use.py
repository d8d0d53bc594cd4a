"""What a person mistypes, and what is said of it: one sentence, a code, and what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from tests.cli.support.agents import AgentFolder
from tests.cli.support.terminal import PERDURE, Terminal, write_settings


def test_unquoted_words_suggest_quotes(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_MODEL", "scripted:nothing.json")
    said = terminal("run", "fix", "the", "test")
    assert (said.code, "perdure run 'fix the test'" in said.err) == (2, True)


def test_program_error_shows_its_arguments(terminal: Terminal) -> None:
    said = terminal("run", "user_values", "seven")
    assert (said.code, "number=VALUE" in said.err) == (2, True)


def test_repository_must_be_a_folder(work: AgentFolder) -> None:
    said = work(*work.script("Done."), "--repo", str(work.folder / "a.py"))
    assert (said.code, "is a file" in said.err) == (2, True)


@pytest.mark.parametrize("amount", ["nan", "inf", "-nan"])
def test_cost_must_be_a_finite_number(amount: str, work: AgentFolder) -> None:
    said = work(*work.script("Done."), "--once", "--cost", amount)
    assert (said.code, "Traceback" in said.err, "--cost" in said.err) == (2, False, True)


@pytest.mark.parametrize("words", [("show", "{}"), ("run", "user_talk", "{}"), ("run", "{}"), ("{}",)])
def test_long_argument_is_shortened_in_an_error(words: tuple[str, ...], terminal: Terminal) -> None:
    terminal("run", "user_talk", "--id", "t")
    for more in ((), ("--json",)):
        said = terminal(*(word.format("x" * 100_000) for word in words), *more)
        assert (said.code in (1, 2), len(said.err) < 1000, "x" * 60 in said.err) == (True, True, True)


def test_unexpected_error_is_one_message_and_has_a_traceback_on_request(
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


def test_mistyped_environment_variable_is_a_warning(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal("run", "user_talk", "--id", "t")
    monkeypatch.setenv("PERDURE_ZEBRA", "another program's")
    assert terminal("ls").err == ""
    monkeypatch.setenv("PERDURE_STOER", "elsewhere.db")
    said = terminal("ls")
    assert (said.code, "PERDURE_STOER" in said.err, "PERDURE_STORE?" in said.err) == (0, True, True)
    assert terminal("ls", "--json").err == ""


def test_settings_of_the_right_type_are_used(terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_STORE")
    write_settings('store = "own.db"\nconnections = 3\napp = ["json", "math"]\n')
    assert terminal("run", "user_talk", "--id", "t").code == 3
    assert (folder / "own.db").exists()


def test_environment_that_is_not_utf8_is_refused(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_BY", "\udcff")
    said = terminal("run", "user_talk", "--id", "t")
    assert (said.code, "`by`" in said.err) == (2, True)


def test_no_command_is_suggested_for_a_store_in_memory(work: AgentFolder) -> None:
    failed = work("run", "user_fails", "--store", "memory:")
    assert (failed.code, "memory:" in failed.err, "hint" in failed.err) == (1, False, False)
    waited = work("run", "user_talk", "--store", "memory:")
    assert (waited.code, "perdure " in waited.out) == (3, False)
    answered = work(*work.script("Done."), "--store", "memory:")
    assert (answered.code, answered.out.strip(), "memory:" in answered.err) == (0, "Done.", False)


BYTES = b"\xff\xfe"  # what a shell of another encoding gives


def raw(*arguments: bytes | str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([PERDURE, *arguments], stderr=subprocess.PIPE, timeout=180, **options)  # type: ignore[call-overload,no-any-return]


def test_unquoted_prompt_is_wrong_use(work: AgentFolder) -> None:
    _, _, *options = work.script("Done.")
    said = work("run", "fix", "the", "failing", "test", *options)
    assert (said.code, "error: " in said.err) == (2, True)


def test_missing_repository_is_wrong_use(work: AgentFolder) -> None:
    said = work(*work.script("Done."), "--repo", str(work.folder / "shpo"))
    assert (said.code, "shpo" in said.err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("approve", BYTES, "--because", "x"), ("settle", BYTES, "--absent", "--because", "x"), ("answer", BYTES, "x"),
     ("undo", BYTES, "--because", "x"), ("ls", "--owner", BYTES), ("effects", "--tool", BYTES),
     ("facts", "--scope", BYTES)],
    ids=lambda words: words[0],
)  # fmt: skip
def test_arguments_that_are_not_utf8_are_refused(words: tuple[bytes | str, ...], terminal: Terminal) -> None:
    terminal("run", "user_talk", "--id", "t")
    said = raw(*words)
    assert said.returncode == 2
    assert said.stderr.startswith(b"error: ")


@pytest.mark.parametrize("line", ["store = 3", "[store]\na = 1", 'store = ["a", "b"]', "by = true"])
def test_setting_of_the_wrong_type_is_wrong_use(
    line: str, terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERDURE_STORE")
    (folder / "perdure.toml").write_text(line)
    said = terminal("ls")
    assert (said.code, "perdure.toml" in said.err) == (2, True)


@pytest.mark.parametrize("limit", [("--turns", "-1"), ("--turns", "0"), ("--cost", "-1")], ids=" ".join)
def test_limit_of_zero_is_wrong_use(limit: tuple[str, str], work: AgentFolder) -> None:
    assert work(*work.script("Done."), "--once", *limit).code == 2
