"""Commands: their results, which are read-only, and what is known of one whose worker was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from perdure.agent.commands.read_only import is_read_only
from perdure.agent.commands.runner import redaction_from
from perdure.agent.files.workspace import Workspace
from perdure.agent.history.command_origins import origins_of
from perdure.agent.tools import command
from perdure.agent.tools.command import pick, reattach, run_command, run_read_only
from perdure.agent.tools.result import ToolResult
from perdure.artifacts.directory import Directory
from perdure.domain.effect import AttemptOutcome
from perdure.errors import LeaseLost, NotDone
from perdure.runtime.definitions.tool import Call
from perdure.secrets import redaction
from perdure.secrets.stream import send_markers
from tests.agent.support.command_worker import start_worker, workspace_of
from tests.agent.support.sandbox_run import running_with, until

ONCE = "echo ran >> log"
UNTIL_GO = f"{ONCE}; while [ ! -e go ]; do sleep 0.02; done; echo done; exit 3"


def runs(workspace: Workspace) -> int:
    """How often the command ran."""
    log = workspace.root / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def call(attempt: int = 1, key: str = "k") -> Call:
    return Call(key, attempt, "s", "e")


@pytest.fixture
def workspace(folder: Path) -> Workspace:
    return workspace_of(folder)


@pytest.fixture
def killed(folder: Path) -> Callable[..., None]:
    """Have a worker killed at a point of a command."""

    def kill(text: str, point: str) -> None:
        with start_worker(folder, text, die=point) as worker:
            worker.communicate()
        assert worker.returncode == -signal.SIGKILL

    return kill


def test_an_exit_code_is_a_result(workspace: Workspace) -> None:
    with workspace.active():
        bad = run_command(call(), "echo out; echo err >&2; exit 3")
        good = run_command(call(key="l"), "cat; printf 'a\\033[1m'")
    assert bad == ToolResult(
        "exit 3\nout\nerr", origin="command:echo out; echo err >&2; exit 3", failed=True, changed=True
    )
    assert (good.text, good.failed) == ("exit 0\na\\x1b[1m", False)


@pytest.mark.slow
def test_a_command_that_takes_too_long_is_reported(workspace: Workspace) -> None:
    with workspace.active():
        said = run_command(call(), "echo begun; sleep 1000", timeout=1)
    assert (said.text, said.failed) == ("Stopped: it reached its time limit.\nbegun", True)


def test_long_output_is_cut_in_the_middle_and_stored_whole(workspace: Workspace, folder: Path) -> None:
    workspace.artifacts = Directory(folder / "artifacts")
    with workspace.active():
        said = run_command(call(), "seq 1 20000")
    whole = "".join(f"{number}\n" for number in range(1, 20001))
    assert said.artifact is not None
    assert workspace.artifacts.get(said.artifact).decode() == whole
    lines = said.text.splitlines()
    (gap,) = (number for number, line in enumerate(lines) if line.startswith("…"))
    assert lines[:2] == ["exit 0", "1"]
    assert lines[-1] == "20000"
    assert lines[gap] == f"… {20000 - (len(lines) - 2):,} lines left out …"
    assert int(lines[gap + 1]) - int(lines[gap - 1]) - 1 == 20000 - (len(lines) - 2)
    assert len(said.text) < 17_000


def test_a_missing_program_is_a_result(workspace: Workspace) -> None:
    with workspace.active():
        said = run_command(call(), "no-such-program")
    assert said.failed
    assert said.text.startswith("exit 127")


def test_a_command_that_cannot_be_started_was_not_done(workspace: Workspace) -> None:
    with workspace.active(), pytest.raises(NotDone):
        run_command(call(), "true " + "x" * 200_000)  # longer than the kernel takes


@pytest.mark.slow
def test_a_command_is_waited_for_after_a_lost_lease(workspace: Workspace) -> None:
    def lost(_progress: str | None) -> None:
        (workspace.root / "go").touch()
        raise LeaseLost("Another worker runs it.")

    with workspace.active():
        said = run_command(Call("k", 1, "s", "e", lost), UNTIL_GO)
    assert said.text == "exit 3\ndone"


@pytest.mark.parametrize(
    "text",
    [
        "ls", "ls -la src", "cat a.py", "  git status  ", "git status --short", "git diff HEAD~1 -- src/a.py",
        "git log --oneline -n5 --author='Ada L'", "grep -rn 'a|b; rm -rf $(x)' src", 'rg -n "def f" src',
        "find . -name '*.py' -type f", "head -n 20 a.py", "wc -l a.py", "git show HEAD:a.py", "pwd",
    ],
)  # fmt: skip
def test_a_read_only_command_is_pure(text: str, workspace: Workspace) -> None:
    assert is_read_only(text)
    with workspace.active():
        assert pick({"command": text}) is run_read_only


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "rm a", "lsof", "ls; rm a", "ls;rm a", "ls & rm a", "ls && rm a", "ls | sh", "ls > a", "ls >> a",
        "cat < a", "cat <(rm a)", "ls $(rm a)", "ls `rm a`", "ls ${x}", "ls $x", "ls\nrm a", "ls\rrm a", "ls \0 a",
        'ls "$(rm a)"', 'ls "`rm a`"', 'ls "a\\"; rm a"', "ls 'a", "ls \\\nrm", "ls #", "ls !x", "ls *",
        "ls ?", "ls [a]",
        "ls {a,b}", "cat ~/x", "(ls)", "X=1 ls", "X=1", "/bin/ls", "./ls", "env ls", "ls\u2028rm", "ls\x0brm a",
        "find . -delete", "find . -exec rm {} +", "find . -execdir x", "find . -ok rm", "find . -okdir rm",
        "find . -fprint a", "find . -fprint0 a", "find . -fprintf a b", "find . -fls a", "find . '-delete'",
        'find . -"delete"', "find . -del'ete'",
        "git", "git -c core.pager=x log", "git -C / status", "git --git-dir=x status", "git -p log", "git checkout a",
        "git log --output=a", "git log --outp=a", "git log --output a", "git diff --ext-diff", "git diff --ext",
        "git log --textconv", "git log -O a", "git log --show-signature", "git log --format=%GK", "git diff -Oa",
        "git show --output=a", "git 'log' --out'put'=a", "git diff --no-index a b", "git branch x", "git status -c x",
        "git log --exec-path=x", "git blame --contents a b", "git grep -Oless x", "git diff --no-ext-diff --ext-diff",
        "rg --pre sh a", "rg --pre=sh a", "rg -z a", "rg -iz a", "rg --search-zip a", "rg --hostname-bin=x a",
        "sort -o a b", "sort a", "tail -f a", "tail -nf a", "tail --follow a", "sed -n p a", "awk 1 a", "xargs rm",
        "tee a", "uniq a b", "pytest --collect-only", "python -c 1", "date -s 1", "file -C", "tree -o a",
    ],
)  # fmt: skip
def test_a_command_that_might_change_something_is_not_pure(text: str) -> None:
    assert not is_read_only(text)
    assert pick({"command": text}) is run_command


@pytest.mark.slow
def test_a_long_command_is_classified_quickly() -> None:
    assert not is_read_only("ls " + "a" * 100_000 + ";")
    assert not is_read_only("ls " + "'a'" * 30_000 + "'")
    assert is_read_only("ls " + "a" * 100_000)


def test_more_commands_can_be_declared_read_only() -> None:
    assert is_read_only("make lint", ("make lint",))
    assert not is_read_only("make linty", ("make lint",))
    assert not is_read_only("make lint; rm a", ("make lint",))
    assert not is_read_only("ls", ())


def test_arguments_without_a_command_are_left_to_the_tool() -> None:
    assert pick({}) is pick({"command": 7}) is run_command


def test_a_read_only_command_uses_no_shell_and_leaves_no_files(workspace: Workspace) -> None:
    (workspace.root / "a b;c").write_text("found")
    with workspace.active():
        said = run_read_only(call(), "cat 'a b;c'")
        missing = run_read_only(call(), "cat none")
    assert (said.text, said.failed, said.changed) == ("exit 0\nfound", False, False)
    assert missing.failed
    assert os.listdir(workspace.scratch or "") == []


def test_the_read_only_tool_refuses_commands_that_may_write(workspace: Workspace) -> None:
    with workspace.active(), pytest.raises(NotDone):
        run_read_only(call(), "touch a")
    assert not (workspace.root / "a").exists()


def test_a_read_only_command_never_runs_a_program_of_the_folder(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = workspace.root / "bin" / "ls"
    evil.parent.mkdir()
    evil.write_text("#!/bin/sh\necho evil\n")
    evil.chmod(0o755)
    monkeypatch.setenv("PATH", f"{evil.parent}:bin:{os.environ['PATH']}")
    with workspace.active():
        assert run_read_only(call(), "ls").text == "exit 0\nbin"


@pytest.mark.slow
@pytest.mark.parametrize("point", ["command.folder", "command.locked"])
async def test_a_command_that_never_began_is_known_to_be_absent(
    workspace: Workspace, killed: Callable[..., None], point: str
) -> None:
    killed(ONCE, point)
    assert command.running("k", workspace) is None
    assert await reattach("k", workspace) is None  # without the number of the attempt there is no proof
    found = await reattach("k", workspace, attempt=1)
    assert found is not None
    assert found.outcome is AttemptOutcome.ABSENT
    assert runs(workspace) == 0
    with workspace.active():
        with pytest.raises(NotDone, match="stopped it from beginning"):  # a worker that was only slow comes too late
            run_command(call(1), ONCE)
        assert not run_command(call(2), ONCE).failed
    assert runs(workspace) == 1


@pytest.mark.slow
@pytest.mark.parametrize("point", ["command.begun", "command.ended"])
async def test_the_outcome_of_a_command_is_found_without_running_it_again(
    workspace: Workspace, killed: Callable[..., None], point: str
) -> None:
    killed(f"{ONCE}; echo out; exit 3", point)
    found = await reattach("k", workspace, attempt=1)
    assert found is not None
    assert found.outcome is AttemptOutcome.ACKNOWLEDGED
    assert msgspec.json.decode(found.result or "", type=ToolResult).text == "exit 3\nout"
    with workspace.active():
        assert run_command(call(2), ONCE).text == "exit 3\nout"  # another attempt gets the same, and runs nothing
    assert runs(workspace) == 1


@pytest.mark.slow
async def test_a_command_outlives_its_worker_and_is_waited_for(workspace: Workspace, folder: Path) -> None:
    with start_worker(folder, UNTIL_GO) as worker:
        until(lambda: runs(workspace))
        worker.kill()
    assert command.running("k", workspace) is not None
    waiting = asyncio.create_task(reattach("k", workspace))
    await asyncio.sleep(0)  # it has looked once
    (workspace.root / "go").touch()
    found = await waiting
    assert found is not None
    assert "waited" in found.why
    assert msgspec.json.decode(found.result or "", type=ToolResult).text == "exit 3\ndone"
    assert command.running("k", workspace) is None
    assert runs(workspace) == 1


@pytest.mark.slow
def test_two_attempts_never_run_at_the_same_time(workspace: Workspace, folder: Path) -> None:
    with start_worker(folder, UNTIL_GO) as worker:
        until(lambda: runs(workspace))
        worker.kill()
    with start_worker(folder, UNTIL_GO, attempt=2) as second:
        until((folder / "scratch/k/2/tmp").exists)
        assert second.poll() is None
        (workspace.root / "go").touch()
        assert second.communicate()[0].strip() == '["exit 3\\ndone", true]'
    assert runs(workspace) == 1


@pytest.mark.slow
async def test_a_surviving_command_can_be_stopped(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEN", str(folder))
    with start_worker(folder, f"{ONCE}; sleep 1000 & sleep 1000") as worker:
        until(lambda: runs(workspace))
        worker.kill()
    assert command.end("k", workspace, because="Ada wants it gone")
    found = await reattach("k", workspace)
    assert found is not None
    said = msgspec.json.decode(found.result or "", type=ToolResult)
    assert (said.text, said.failed) == ("Stopped: Ada wants it gone.", True)
    assert running_with(f"DEN={folder}") == []
    assert not command.end("k", workspace, because="again")


@pytest.mark.slow
async def test_a_runner_that_is_asked_to_stop_records_it(workspace: Workspace, folder: Path) -> None:
    with start_worker(folder, f"{ONCE}; sleep 1000") as worker:
        until(lambda: runs(workspace))
        os.kill(command.running("k", workspace) or 0, signal.SIGTERM)
        assert worker.communicate()[0].strip() == '["Stopped: its runner was asked to stop.", true]'


@pytest.mark.slow
async def test_outcome_is_unknown_when_the_command_runner_was_killed(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEN", str(folder))
    with start_worker(folder, f"{ONCE}; sleep 1000") as worker:
        until(lambda: runs(workspace))
        worker.kill()
    os.kill(command.running("k", workspace) or 0, signal.SIGKILL)
    until(lambda: command.running("k", workspace) is None)
    assert await reattach("k", workspace, attempt=1) is None
    until(lambda: running_with(f"DEN={folder}") == [])  # what it watched over died with it
    with workspace.active():
        assert not run_command(call(2), ONCE).failed  # a person said so
    assert runs(workspace) == 2


async def test_an_unknown_command_is_not_found(workspace: Workspace) -> None:
    assert await reattach("k", workspace) is None
    assert command.running("k", workspace) is None
    assert not command.end("k", workspace, because="nothing")


async def test_a_command_can_be_forgotten(workspace: Workspace) -> None:
    with workspace.active():
        run_command(call(), "true")
    assert await reattach("k", workspace) is not None
    command.forget("k", workspace)
    assert await reattach("k", workspace) is None


def test_a_known_secret_is_replaced_before_output_reaches_a_file(workspace: Workspace, folder: Path) -> None:
    redaction.add("env:TOKEN", "a-value-of-a-test")
    workspace.artifacts = Directory(folder / "artifacts")
    with workspace.active():
        said = run_command(call(), "printf a-value; sleep 0.2; echo -of-a-test; seq 1 6000; printf a-value-of")
    assert said.text.startswith("exit 0\n[secret env:TOKEN]\n1\n")
    (output,) = (folder / "scratch").rglob("1/output")
    assert output.read_text().splitlines()[:2] == ["[secret env:TOKEN]", "1"]
    assert output.read_text().endswith("6000\na-value-of")
    assert said.artifact is not None
    assert workspace.artifacts.get(said.artifact) == output.read_bytes()


def test_a_secret_that_became_known_meanwhile_is_not_in_the_artifact(workspace: Workspace, folder: Path) -> None:
    workspace.artifacts = Directory(folder / "artifacts")
    late = Call("k", 1, "s", "e", lambda _: redaction.add("env:TOKEN", "a-value-of-a-test"))
    with workspace.active():
        said = run_command(late, "echo a-value-of-a-test; seq 1 6000; sleep 1.5")
    assert said.artifact is not None
    assert workspace.artifacts.get(said.artifact).startswith(b"[secret env:TOKEN]\n1\n")


def test_a_runner_without_all_secrets_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    pipe, end = os.pipe()
    send_markers(end, {b"a": b"b"})
    assert redaction_from(pipe).feed(b"xa") == b"xb"
    for given in ("61 62\n", "61 6", ""):
        pipe, end = os.pipe()
        os.write(end, given.encode())
        os.close(end)
        with pytest.raises(SystemExit, match="has died before it gave the secrets"):
            redaction_from(pipe)


@pytest.mark.parametrize(
    ("command", "origins"),
    [
        ("ls src", []),
        ("curl -s https://user@example.com/a.txt | head -1", ["web:example.com"]),
        ("git fetch origin", ["web:git"]),
        ("cat /etc/hostname ~/x ../y", ["file:/etc/hostname", "file:{home}/x", "file:{above}/y"]),
        ("cat {root}/a.txt < /dev/zero", ["file:/dev/zero"]),
        ("$PROGRAM x", ["web:*"]),
    ],
)
def test_a_command_marks_what_it_has_read(tmp_path: Path, command: str, origins: list[str]) -> None:
    places = {"home": str(Path.home()), "above": str(tmp_path.parent), "root": str(tmp_path)}
    filled = command.replace("{root}", places["root"])
    found = origins_of(filled, Workspace(tmp_path, session_uid="s", network=True))
    assert found == [one.format(**places) for one in origins]
