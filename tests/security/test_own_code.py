"""Attack: a repository, or the model, plants programs and modules where Perdure would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.agent.commands import executables
from perdure.agent.commands.sandbox import Level, available, environment
from perdure.agent.files.workspace import here
from perdure.agent.git import command_line
from tests.agent.support.requirements import need_bubblewrap
from tests.agent.support.tool_calls import do

IN_THE_VENV = """
import sys
from pathlib import Path
from perdure.agent.tools import command
from perdure.agent.files.workspace import Workspace
from perdure.errors import NotDone
from perdure.ids import new_uid
from tests.agent.support.tool_calls import do

root = Path(sys.argv[1])
with Workspace(root, session_uid=new_uid()).active():
    try:
        do("write_file", {"path": ".venv/evil.pth", "content": "import evil", "before": None})
    except NotDone as refused:
        print(refused.message)
    print(do("run_command", {"command": "touch .venv/evil.pth; echo done", "timeout": 60}, key=new_uid()).text)
print((root / ".venv" / "evil.pth").exists())
"""


def plant(folder: Path, name: str, mark: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\ntouch {mark}\nexit 42\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("name", ["git", "bwrap"])
@pytest.mark.parametrize("how", ["inside", "link"])
def test_a_program_planted_on_the_path_is_not_run(
    name: str, how: str, repository: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = folder / "ran"
    plant(repository / "bin", name, mark)
    work_folder = repository / "bin"
    if how == "link":
        work_folder = folder / "linked"
        work_folder.symlink_to(repository / "bin")
    monkeypatch.setenv("PATH", f"{work_folder}:{os.environ['PATH']}")
    assert command_line.find(repository) is not None
    do("git_status", {})
    available(repository)
    assert executables.executable(name, repository) != str(work_folder / name)
    assert not mark.exists()


def test_a_relative_entry_of_the_path_is_not_searched(
    repository: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(repository, "git", folder / "ran")
    monkeypatch.chdir(repository)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    do("git_status", {})
    assert not (folder / "ran").exists()


@pytest.mark.slow
def test_the_environment_that_perdure_runs_from_cannot_be_written(folder: Path) -> None:
    need_bubblewrap()
    root = folder / "project"
    root.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / ".venv")], check=True, timeout=120)
    (library,) = (root / ".venv" / "lib").glob("python3*/site-packages")
    (library / "ours.pth").write_text("\n".join(path for path in sys.path if path))
    python = root / ".venv" / "bin" / "python"
    ended = subprocess.run(
        [str(python), "-P", "-c", IN_THE_VENV, str(root)], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    assert "Perdure itself runs from there" in ended.stdout
    assert "Read-only file system" in ended.stdout
    assert ended.stdout.splitlines()[-2:] == ["done", "False"]


SECRETS = {
    "SECRET_KEY": "s", "TOKEN": "s", "OPENAI_KEY": "s", "MYSQL_PWD": "s", "GH_PAT": "s", "MONGODB_URI": "s",
    "ANTHROPIC_API_KEY": "s", "AWS_SECRET_ACCESS_KEY": "s", "SSH_AUTH_SOCK": "/x", "PERDURE_STORE": "s",
    "HTTPS_PROXY": "http://user:pw@proxy:1", "GIT_ASKPASS": "x", "PIP_INDEX_URL": "https://u:p@index/simple",
}  # fmt: skip


def test_commands_see_no_secret_of_the_environment(work_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("HOME", str(work_folder))
    told = environment(here(), Level.NONE, work_folder)
    assert told.keys() & SECRETS.keys() == set()
    assert {"PATH", "HOME", "LC_TIME"} <= told.keys()


def test_git_reads_no_settings_that_a_model_wrote(work_folder: Path) -> None:
    program = f"touch {work_folder / 'ran'}; false"
    settings = f'[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = "{program}"\n'
    files = {"HEAD": "ref: refs/heads/main\n", "config": settings, "objects/x": "", "refs/x": ""}
    for name, content in files.items():
        do("write_file", {"path": f"sub/{name}", "content": content, "before": None})
    told = environment(here(), Level.NONE, work_folder)
    for command in ("git -C sub status", "cd sub && git status"):
        subprocess.run(["/bin/sh", "-c", command], cwd=work_folder, env=told, check=False, capture_output=True)
    assert not (work_folder / "ran").exists()


def test_a_person_adds_names_to_what_commands_see(work_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "t")
    monkeypatch.setenv("OTHER", "o")
    monkeypatch.setenv("PERDURE_ENVIRONMENT", "TOKEN, NONE")
    here().environment = ("OTHER",)
    told = environment(here(), Level.NONE, work_folder)
    assert (told["TOKEN"], told["OTHER"]) == ("t", "o")


def test_a_look_at_the_folder_needs_a_program_outside_it(work_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(work_folder, "onlyhere", work_folder / "ran")
    monkeypatch.setenv("PATH", str(work_folder))
    assert executables.executable("onlyhere", work_folder) is None
    assert executables.executable("onlyhere") == str(work_folder / "onlyhere")
