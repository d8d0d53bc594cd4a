"""`perdure diff`, as a person reads it."""

from __future__ import annotations

import re

import click
import pytest

from perdure.cli.commands.diff import diff_lines
from tests.cli.support.agents import AgentFolder
from tests.cli.support.repositories import branch, call, events, make_repository, work, write
from tests.cli.support.terminal import Terminal

SCRIPT = [
    call(write("b.txt", "b\n")),
    call(write("c.txt", "\x1b[2Jc\n")),
    "Done.",
    call(write("d.txt", "d\n")),
    "Done too.",
]


@pytest.fixture
def worked(terminal: Terminal) -> Terminal:
    make_repository(terminal.folder / "work")
    work(terminal, SCRIPT)
    return terminal


def files(text: str) -> list[str]:
    return re.findall(r"^diff --git a/(\S+)", text, re.MULTILINE)


@pytest.mark.slow
def test_diff_with_the_start_and_between_events(worked: Terminal) -> None:
    said = worked("diff", "s")
    assert (said.code, said.err, files(said.out)) == (0, "", ["b.txt", "c.txt"])
    assert "+\\x1b[2Jc\n" in said.out
    assert "\x1b" not in said.out
    first, second = map(str, events(worked, "tool"))
    assert files(worked("diff", "s", "--to", first).out) == ["b.txt"]
    assert files(worked("diff", "s", "--from", first, "--to", second).out) == ["c.txt"]
    assert worked("diff", "s", "--from", second).out.startswith(f"No file differs between event {second} of s and ")
    assert worked("diff", "s", "--stat").out.endswith("2 files changed, 2 insertions(+)\n")
    found = worked("diff", "s", "--from", first, "--json").json
    assert (found["before"]["event"], files(found["text"])) == (int(first), ["c.txt"])


@pytest.mark.slow
def test_diff_of_a_branch_with_its_fork_and_its_parent(worked: Terminal) -> None:
    branch(worked)
    assert files(worked("diff", "b").out) == ["d.txt"]
    assert files(worked("diff", "b", "--parent").out) == ["d.txt"]


@pytest.mark.slow
def test_diff_without_a_snapshot_is_an_error(worked: Terminal) -> None:
    said = worked("diff", "s", "--from", "1")
    assert (said.code, "Session s has no snapshot at event 1." in said.err) == (1, True)
    worked("run", "user_talk", "--id", "t")
    said = worked("diff", "t")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 2)
    for words in (("diff", "s", "--parent"), ("diff", "s", "--parent", "--from", "3"), ("diff", "s", "--to", "999")):
        assert worked(*words).code == 2


def test_diff_is_coloured_by_hunk_and_escaped() -> None:
    text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- a\x1b[31m\n+++ b\r\n same\n"
    lines = list(diff_lines(text))
    assert [click.unstyle(line) for line in lines] == [
        *("diff --git a/x b/x", "--- a/x", "+++ b/x", "@@ -1 +1 @@", "--- a\\x1b[31m", "+++ b\\r", " same")
    ]
    red, green, bold = click.style("x", fg="red")[:5], click.style("x", fg="green")[:5], click.style("x", bold=True)[:4]
    assert [line[: len(start)] == start for line, start in zip(lines[4:6], (red, green), strict=True)] == [True, True]
    assert all(line.startswith(bold) for line in lines[:3])


@pytest.mark.postgres
@pytest.mark.databases("postgres")
def test_missing_snapshots_report_the_setting(work: AgentFolder, target: str) -> None:
    assert work(*work.script("Done."), "--store", target).code == 0
    said = work("diff", "one", "--store", target)
    assert "artifacts" in said.out + said.err
    assert "`artifacts`" in work("fork", "one", "--store", target).out
