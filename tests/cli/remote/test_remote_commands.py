"""Commands on a service print what they print on a store; those that cannot work there say so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import click
import pytest

from perdure.cli import COMMANDS, main, perdure
from perdure.cli.remote import access, supported
from perdure.client import connection
from tests.cli.remote.support.two_stores import TwoStores
from tests.cli.support.terminal import clean_environment
from tests.seed import sample
from tests.tidy.source import ROOT

READS = [
    "ls", "ls --json --status waiting", "ls --owner ada --limit 1", "show review", "show review --json",
    "show ask --at 3", "show fail --last 1", "approvals", "approvals --json --session review", "effects",
    "effects --json --tool two_post", "tasks ask", "decisions", "decisions review --json", "facts --json", "orders",
    "limits", "schedules", "queues", "exemptions", "principals", "token", "show missing", "approvals missing",
    "effects missing", "brief review", "audit", "audit waiting --json", "policy show",
    "policy history", "policy explain --tool run_command --arg command=ls", "policy explain missing",
    "ls --archived", "ls --all --json", "ls --search hid --all", "ls --search TITLE", "ls --search nothing",
    "artifacts ls missing", "artifacts cat DIGEST", "artifacts cat DIGEST --json",
    "artifacts cat ffff", "orders --all", "schedules show hourly", "verify", "verify ask",
    "verify missing", "diff ask", "diff missing", "rewind ask --to 1", "policy diff",
    "policy check policy.toml", "notifications --json", "notifications channels", "notifications --failed",
    "audit head", "audit tail", "audit report --json",
]  # fmt: skip
CHANGES = [
    "answer ask a --json", "answer missing a", "approve review --because fine", "deny review --because never",
    "approve ask", "withdraw missing --because x", "send mail hello --id m-1", "send ask hello", "pause mail",
    "fork review --id branch", "cancel branch", "interrupt mail", "rename ask Another", "archive fail",
    "settle missing --absent --because x", "queues set nightly --concurrency 2", "facts set key 5 --session ask",
    "facts forget branch --session ask", "tasks add ask Write", "orders rm brief", "schedules pause hourly",
    "schedules rm hourly", "limits set openai --requests 5", "rm branch --yes",
    "policy freeze --because x", "policy show", "policy thaw", "policy set policy.toml --because x", "policy history",
    "policy diff",
    "policy diff 0 policy.toml", "policy check policy.toml --against 7d", "notifications test mail",
    "notifications test missing", "notifications retry", "notifications rm mail", "notifications rm mail",
    "retry --all --dry-run", "retry --all --yes --queue default",
    "archive --all --yes", "approve missing --session ask", "settle missing --absent --because x --session review",
]  # fmt: skip
ALONE = sorted(name for name in supported.REFUSED if " " not in name)
SAMPLED = 12  # of each; a soak runs all
DIGEST = sha256(b"a report\n").hexdigest()[:12]


@pytest.fixture
def two(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[TwoStores]:
    clean_environment(monkeypatch, folder)
    monkeypatch.chdir(folder)
    with TwoStores(folder, capsys) as made:
        yield made


@pytest.mark.slow
def test_commands_that_read_print_the_same(two: TwoStores, folder: Path) -> None:
    (folder / "policy.toml").write_text('default = "ask"\n')
    for command in sample(READS, SAMPLED):
        words = command.replace("DIGEST", DIGEST).split()
        assert (command, *two.run(two.there, *words)) == (command, *two.run(two.here, *words))


@pytest.mark.slow
def test_commands_that_change_do_and_print_the_same(two: TwoStores, folder: Path) -> None:
    (folder / "policy.toml").write_text('default = "ask"\n')
    for command in sample(CHANGES, SAMPLED):  # in their order: later ones find what earlier ones left
        words = command.replace("DIGEST", DIGEST).split()
        assert (command, *two.run(two.there, *words)) == (command, *two.run(two.here, *words))
    for after in ("ls --json", "show ask --json", "show review --json", "show mail --json", "orders --json"):
        assert (after, *two.run(two.there, *after.split())) == (after, *two.run(two.here, *after.split()))


def test_other_commands_are_refused_in_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clean_environment(monkeypatch, folder)
    assert sorted([*supported.COMMANDS, *supported.WITHOUT, *ALONE]) == sorted(COMMANDS)
    for name in ALONE:
        found = perdure.get_command(click.Context(perdure), name)
        assert found is not None
        given = ["x" for one in found.params if isinstance(one, click.Argument) and one.required]
        needed = {"--to": "1", "--grant": "x"}
        words = [word for one in found.params if isinstance(one, click.Option) and one.required
                 for word in (one.opts[0], needed.get(one.opts[0], "x"))]  # fmt: skip
        with pytest.raises(SystemExit) as ended:
            main(["--store", "unix:/nowhere", name, *given, *words])
        said = capsys.readouterr().err
        assert (name, ended.value.code) == (name, 2)
        need = supported.REFUSED[name]
        assert f"`perdure {name}` does not work on a service: it needs {need.what}." in said, said
        assert need.hint in said


@pytest.mark.parametrize("words", [["rewind", "x", "--here"], ["audit", "verify", "--against", "x"]])
def test_parts_of_commands_are_refused_before_they_do_anything(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    clean_environment(monkeypatch, folder)
    with pytest.raises(SystemExit) as ended:
        main(["--store", "unix:/nowhere", *words])
    said = capsys.readouterr().err
    assert (ended.value.code, "does not work on a service" in said) == (2, True), said


def test_a_wrong_address_is_named_and_said_to_be_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clean_environment(monkeypatch, folder)
    monkeypatch.setattr(access, "FIRST_PATIENCE", 0.1)
    monkeypatch.setattr(connection, "NOTICED", 0)  # at the first failure
    with pytest.raises(SystemExit) as ended:
        main(["--store", f"unix:{folder}/no.sock", "ls"])
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (1, "")
    waiting, error, hint = said.err.splitlines()
    assert re.search(r"cannot be reached: No such file or directory\. Trying again for \d+ s\.$", waiting)
    assert "[store-unavailable]" in error
    assert "`perdure serve` runs there" in hint


def test_page_lists_every_command_that_is_refused() -> None:
    text = (ROOT / "docs" / "how-to" / "client.md").read_text()
    rows = text.partition("## Refused commands")[2]
    listed = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", rows, re.MULTILINE)
    assert listed == [(name, need.what, need.hint) for name, need in supported.REFUSED.items()]


@pytest.mark.slow
def test_files_of_a_service_are_written_here(two: TwoStores, folder: Path) -> None:
    code, printed = two.run(two.there, "audit", "head", "--to", "kept.head", "--sign")
    assert (code, "kept.head has the ends of the logs" in printed) == (0, True), printed
    code, printed = two.run(str(folder / "there.db"), "audit", "verify", "--against", "kept.head", "--signed-by", "me")
    assert (code, "everything that the head names is there" in printed) == (0, True), printed
    code, printed = two.run(two.here, "audit", "verify", "--against", "kept.head")
    assert code != 0
    assert two.run(two.there, "top", "--once")[0] == 0
    assert DIGEST in two.run(two.there, "artifacts", "ls", "save")[1]
    assert two.run(two.there, "artifacts", "get", DIGEST, "report.txt")[0] == 0
    assert (folder / "report.txt").read_bytes() == b"a report\n"
    code, printed = two.run(two.there, "audit", "report", "--to", "report.html")
    assert (code, "<svg" in (folder / "report.html").read_text()) == (0, True), printed


@pytest.mark.slow
def test_bundle_goes_from_a_service_to_a_store_and_back(two: TwoStores, folder: Path) -> None:
    assert two.run(two.there, "export", "ask", "--to", "ask.zip")[0] == 0
    for store in (two.here, two.there):
        code, printed = two.run(store, "import", "ask.zip", "--id", "copied")
        assert (code, "copied is a copy of ask" in printed) == (0, True), printed
    assert two.run(two.there, "show", "copied")[0] == 0
    assert two.run(two.there, "import", "ask.zip", "--keep", "all")[0] == 2


@pytest.mark.slow
def test_session_of_a_program_that_is_not_loaded_is_started(two: TwoStores) -> None:
    code, printed = two.run(two.there, "run", "two_review", "pr=9", "--detach", "--id", "begun")
    assert (code, "begun" in printed) == (0, True)
    assert "two_review(pr=9)" in two.run(two.there, "show", "begun")[1]
    code, printed = two.run(two.there, "run", "two_nothing", "--detach")
    assert (code, "[program-unknown]" in printed) == (2, True)
    assert "The service has not loaded a program two_nothing." in printed
