"""The demo, through the real executable. It says what the service's own log says, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.scene import Counts
from perdure.testing.proxy import wait_until
from perdure.testing.sink_service import read_log
from tests.tidy.source import ROOT, text

PERDURE = str(Path(sys.executable).with_name("perdure"))
VARYING = [(r"\be-[0-9a-f]{16}\b", "e-…"), (r"\bw-[0-9a-z]{10}\b", "w-…"), (r"process \d+", "process …")]
VARYING += [(r'comment [0-9a-f]{12}|"[0-9a-f]{12}"', "comment …"), (r"^ *\d+  (?=post_comment)", "…  ")]


def demo(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_", "COLUMNS"))}
    line = [PERDURE, "demo", *arguments]
    return subprocess.run(line, capture_output=True, text=True, env=given | environment, timeout=60)


def whats(log: Path) -> list[str]:
    return [line["what"] for line in read_log(log)]


def without_names(said: str) -> str:
    for pattern, name in VARYING:
        said = re.sub(pattern, name, said, flags=re.MULTILINE)
    return re.sub(r" +", " ", said)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """One demo, kept, and what it said."""
    folder = tmp_path_factory.mktemp("demo") / "kept"
    ended = demo("--keep", str(folder), COLUMNS="110")
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    return folder, ended.stdout


def test_one_comment_is_at_the_service_and_it_was_posted_once_and_looked_for_once(kept: tuple[Path, str]) -> None:
    folder, said = kept
    assert whats(folder / "service" / "review-7.jsonl") == ["posted", "kept", "looked"]
    assert whats(folder / "service" / "review-7-escalate.jsonl") == ["posted", "kept"]
    assert re.search(r"^ +probe +1 +1 +0 +0 +0$", said, re.MULTILINE)
    assert re.search(r"^ +escalate +1 +1 +0 +0 +1$", said, re.MULTILINE)


def test_it_says_what_the_readme_says(kept: tuple[Path, str]) -> None:
    shown = text("README.md").partition("```text\n")[2].partition("```")[0]
    assert shown
    assert without_names(shown) in without_names(kept[1])


def test_the_commands_it_names_work(kept: tuple[Path, str]) -> None:
    folder, said = kept
    lines = [line.split("  ")[0] for line in re.findall(r"^   (perdure .*)$", said, re.MULTILINE)]
    assert [shlex.split(line)[1] for line in lines] == ["show", "show", "effects"]
    for line in lines:
        ended = subprocess.run([PERDURE, *shlex.split(line)[1:]], capture_output=True, text=True)
        assert (ended.returncode, ended.stderr) == (0, ""), line
        assert "post_comment" in ended.stdout
    assert (ROOT / said.rsplit(": ", 1)[1].strip()).exists()
    assert demo("--keep", str(folder)).returncode == 2


@pytest.mark.databases("files", "postgres")
def test_it_is_one_object_about_any_store(target: str) -> None:
    ended = demo("--json", "--store", target)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    said: dict[str, Any] = json.loads(ended.stdout)
    assert (said["right"], said["killed"]["code"], said["killed"]["kept_at_kill"]) == (True, -signal.SIGKILL, 1)
    assert [(one["state"], one["attempts"]) for one in said["ledger"]] == [("dispatched", ["unknown"])]
    assert [one["action"] for one in said["plan"]] == ["probe"]
    names = ("wanted", "at_service", "duplicated", "lost", "people_asked", "status")
    assert [[one[name] for name in names] for one in said["counts"]] == [
        [1, 1, 0, 0, 0, "done"],
        [1, 1, 0, 0, 1, "done"],
    ]


def test_a_store_that_ends_with_its_process_is_wrong_use() -> None:
    ended = demo("--store", "memory:")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "[config]" in ended.stderr


@pytest.mark.parametrize(
    "counts",
    [
        Counts("probe", 1, 2, 1, 0, 0, "done"),
        Counts("probe", 1, 0, 0, 1, 0, "done"),
        Counts("probe", 1, 1, 0, 0, 1, "done"),
        Counts("probe", 1, 1, 0, 0, 0, "waiting"),
        Counts("escalate", 1, 1, 0, 0, 0, "done"),
    ],
)
def test_any_other_count_is_wrong(counts: Counts) -> None:
    assert not counts.right


def test_a_second_comment_is_told_and_is_exit_code_1(tmp_path: Path) -> None:
    """As it would be installed, with a probe that lies: the demo believes the service and nobody else."""
    shutil.copytree(ROOT / "src" / "perdure", tmp_path / "perdure")
    honest = text("examples/one_comment.py")
    liar = honest.replace("== marked(body, call.key)", '== "nothing"')
    assert liar != honest
    (tmp_path / "perdure" / "examples").mkdir()
    (tmp_path / "perdure" / "examples" / "one_comment.py").write_text(liar)
    ended = demo(PYTHONPATH=str(tmp_path))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert re.search(r"^ +probe +1 +2 +1 +0 +0$", ended.stdout, re.MULTILINE)
    assert "The counts are wrong." in ended.stdout


@pytest.mark.parametrize("after", ["A program reviews", "1. Run it", "2. What is", "3. Run it"])
def test_a_killed_demo_leaves_nothing_running(after: str, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    line = [PERDURE, "demo", "--keep", str(folder)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(said.startswith(after) for said in process.stdout)
        assert running(folder)
        process.kill()
    wait_until(lambda: not running(folder), "everything that the demo started to end")


def running(folder: Path) -> list[str]:
    """The processes that were told about a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said = path.read_bytes()
        except OSError:  # it has just ended
            continue
        if bytes(folder) in said:
            found.append(said.replace(b"\0", b" ").decode())
    return found


@pytest.mark.slow
def test_the_wheel_carries_the_program_that_the_demo_kills(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(line, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert opened.read("perdure/examples/one_comment.py").decode() == text("examples/one_comment.py")
