"""The demo, through the real executable. It says what is there outside, and leaves nothing running."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from perdure.cli.demo.environment import DemoEnvironment
from perdure.cli.demo.fixtures import COMMENT, make_repository
from perdure.cli.demo.narrator import Narrator
from perdure.cli.demo.scenario import Scenario
from perdure.cli.shell import Shell
from perdure.testing import Sink
from perdure.testing.proxy import wait_until
from perdure.testing.sink_process import read_log
from tests.tidy.source import ROOT, text
from tools.record import block, without_names

PERDURE = str(Path(sys.executable).with_name("perdure"))
ROW = re.compile(r"^   (the \w+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$", re.MULTILINE)


def clean(**more: str) -> dict[str, str]:
    return {name: said for name, said in os.environ.items() if not name.startswith(("PERDURE_", "COLUMNS"))} | more


def demo(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    line = [PERDURE, "demo", *arguments]
    return subprocess.run(line, capture_output=True, text=True, env=clean(), cwd=cwd, timeout=110)


def whats(log: Path) -> list[str]:
    return [line["what"] for line in read_log(log)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """One demo in an empty folder, kept, and what it said."""
    folder = tmp_path_factory.mktemp("demo")
    ended = demo("--keep", "kept", cwd=folder)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    return folder / "kept", ended.stdout


@pytest.mark.slow
def test_every_effect_is_there_once_and_only_the_push_was_asked_about(kept: tuple[Path, str]) -> None:
    folder, said = kept
    rows = {what: [int(one) for one in counts] for what, *counts in ROW.findall(said)}
    assert rows == {"the comment": [1, 1, 0, 0, 0], "the commit": [1, 1, 0, 0, 0], "the push": [1, 1, 0, 0, 1]}
    assert whats(folder / "service" / "comments.jsonl") == ["posted", "kept", "looked"]
    assert all(len(line) <= 80 for line in said.replace(str(folder), "DIR").splitlines())
    assert "\x1b" not in said
    assert "Its model is scripted" in said


def test_output_equals_the_readme(kept: tuple[Path, str]) -> None:
    shown = block(text("README.md"), "demo")
    assert shown
    assert without_names(kept[1]).replace(str(kept[0]), "DIR").startswith(without_names(shown))


@pytest.mark.slow
def test_suggested_commands_work(kept: tuple[Path, str]) -> None:
    folder, said = kept
    environment = Path(sys.prefix, "bin", "activate")
    assert which("perdure", path=clean()["PATH"]) or not environment.exists() or f"\n   . {environment}\n" in said
    lines = [line.split("   ")[0] for line in re.findall(r"^   (perdure .*)$", said, re.MULTILINE)]
    assert [shlex.split(line)[1] for line in lines] == ["show", "brief", "effects", "run"]
    for line in lines[:-1]:
        ended = subprocess.run(
            [PERDURE, *shlex.split(line)[1:]], capture_output=True, text=True, cwd=folder, env=clean()
        )
        assert (ended.returncode, ended.stderr) == (0, ""), line
        assert "edit_file" in ended.stdout
    assert demo("--keep", str(folder), cwd=folder).returncode == 2


def test_branch_does_not_change_the_repository(kept: tuple[Path, str]) -> None:
    shop = kept[0] / "shop"
    ended = subprocess.run(["git", "status", "--porcelain"], cwd=shop, capture_output=True, text=True, check=True)
    assert (ended.stdout, (shop / "cart.py").read_text().count("sum(prices)")) == ("", 1)
    assert "in the branch   return fsum(prices)" in kept[1]


@pytest.mark.slow
@pytest.mark.databases("postgres")
def test_demo_prints_one_object_on_any_store(target: str, tmp_path: Path) -> None:
    ended = demo("--json", "--store", target, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    said: dict[str, Any] = json.loads(ended.stdout)
    assert (said["right"], said["killed"]["code"], said["killed"]["kept_at_kill"]) == (True, -signal.SIGKILL, 1)
    assert said["ledger"]["post_comment"] == ["dispatched"]
    assert [one["action"] for one in said["plan"]] == ["probe"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_demo_refuses_a_store_in_memory(tmp_path: Path) -> None:
    ended = demo("--store", "memory:", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "[config]" in ended.stderr


@pytest.mark.slow
def test_duplicates_and_losses_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo counts only what is outside."""
    make_repository(tmp_path)
    with Sink(tmp_path / "service") as service:
        scenario = Scenario(DemoEnvironment(tmp_path, service, store=None, sandboxed=True), "fix")
        for _ in range(2):
            service.run("comments").post(None, {"body": COMMENT["body"]}, path="pulls/7/comments")
        narrator = Narrator(Shell(None, json=False), scenario, "none", None)
        narrator.count({"git_push": 1})
    rows = {what: [int(one) for one in counts] for what, *counts in ROW.findall(capsys.readouterr().out)}
    assert rows == {"the comment": [1, 2, 1, 0, 0], "the commit": [1, 0, 0, 1, 0], "the push": [1, 0, 0, 1, 1]}
    assert not narrator.right


@pytest.mark.slow
@pytest.mark.parametrize("after", ["1. An agent", "3. Another process"])
def test_killed_demo_leaves_no_process(after: str, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    line = [PERDURE, "demo", "--keep", str(folder)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=clean()) as process:
        assert process.stdout is not None
        assert any(said.startswith(after) for said in process.stdout)
        wait_until(lambda: len(running(folder)) >= 3, "the demo, the service and a command to run")
        process.kill()
    wait_until(lambda: not running(folder), "everything that the demo started to end")


@pytest.mark.slow
def test_next_demo_removes_only_the_folder_of_a_killed_one(tmp_path: Path) -> None:
    environment = clean(TMPDIR=str(tmp_path))
    with subprocess.Popen([PERDURE, "demo"], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert any(said.startswith("1. An agent") for said in process.stdout)
        (dead,) = tmp_path.glob("perdure-demo-*")
        look = [
            sys.executable,
            "-c",
            "from perdure.cli.demo.folder import remove_stale_folders; remove_stale_folders()",
        ]
        subprocess.run(look, env=environment, check=True)
        assert dead.exists()  # it lives
        process.kill()
    wait_until(lambda: not running(dead), "everything that the demo started to end")
    strange, linked = tmp_path / "perdure-demo-strange", tmp_path / "perdure-demo-linked"
    strange.mkdir()
    linked.symlink_to(strange)
    subprocess.run(look, env=environment, check=True)
    assert sorted(tmp_path.glob("perdure-demo-*")) == [linked, strange]


def running(folder: Path) -> list[str]:
    """The processes that were told about a folder, or stand in it."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            said, cwd = (path / "cmdline").read_bytes(), os.readlink(path / "cwd")
        except OSError:  # it has just ended
            continue
        if said and (bytes(folder) in said or Path(cwd).is_relative_to(folder)):
            found.append(said.replace(b"\0", b" ").decode())
    return found


@pytest.mark.slow
def test_wheel_contains_the_programs_of_the_demo(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(line, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        for name in ("one_comment.py", "fix_a_test.py"):
            assert opened.read(f"perdure/examples/{name}").decode() == text(f"examples/{name}")
