"""Attack: a command in the sandbox reaches for the kernel's settings, the person's keys, or Perdure's own stores."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

import perdure
from perdure.agent.commands import bubblewrap, home_folders
from perdure.agent.commands.own_files import own_files
from perdure.agent.commands.sandbox import Level, command_line
from perdure.agent.files.workspace import Workspace
from perdure.config import data_folder, user_file
from perdure.errors import NotDone
from tests.agent.support.requirements import need_bubblewrap
from tests.agent.support.sandbox_run import SandboxedFolder
from tests.agent.support.tool_calls import make_repository, run_git
from tests.cli.support.agents import AgentFolder, calls

SECRETS = (
    ".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".netrc", ".docker/config.json", ".npmrc", ".pypirc",
    ".kube/config", ".gnupg/private-keys-v1.d/x.key", ".mozilla/firefox/x.default/logins.json",
    ".cargo/credentials.toml",
    ".config/google-chrome/Default/Login Data", ".local/share/keyrings/login.keyring", ".m2/settings.xml",
    ".config/git/credentials", ".git-credentials", ".bash_history", "notes.txt",
)  # fmt: skip


@pytest.fixture
def sandboxed(tmp_path: Path) -> SandboxedFolder:
    need_bubblewrap()
    return SandboxedFolder(tmp_path, Level.BUBBLEWRAP)


@pytest.mark.slow
def test_no_setting_of_the_kernel_can_be_written(sandboxed: SandboxedFolder) -> None:
    _, said = sandboxed.run(
        "find /proc/sys /proc/sysrq-trigger /proc/irq /proc/bus /proc/fs /sys -writable 2>/dev/null; true"
    )
    assert said == ""
    value = Path("/proc/sys/kernel/printk_ratelimit").read_text()
    _, said = sandboxed.run(
        "echo 7 > /proc/sys/kernel/printk_ratelimit; mount -o remount,rw /proc/sys; umount /proc/sys"
    )
    assert Path("/proc/sys/kernel/printk_ratelimit").read_text() == value
    assert "Read-only file system" in said


def test_no_credential_of_the_home_folder_can_be_read(
    sandboxed: SandboxedFolder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = folder / "home"
    for name in SECRETS:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("hush")
    (home / ".gitconfig").write_text("[user]\nname = Ada\n")
    (home / ".cargo" / "registry").mkdir()
    monkeypatch.setenv("HOME", str(home))
    _, said = sandboxed.run(
        "grep -rl hush $HOME; ls -A $HOME; cat $HOME/.gitconfig; echo x > $HOME/new && echo written"
    )
    assert said.split() == [".cargo", ".gitconfig", "[user]", "name", "=", "Ada", "written"]
    assert not (home / "new").exists()


def test_a_person_names_more_that_can_be_read(
    sandboxed: SandboxedFolder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = folder / "home"
    (home / "data").mkdir(parents=True)
    (home / "data" / "set").write_text("hello\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PERDURE_READABLE", f"{home / 'data'}:{home}")
    _, said = sandboxed.run("cat $HOME/data/set; ls -A $HOME")
    assert said.split() == ["hello", "data"]


@pytest.mark.slow
def test_git_works_in_a_worktree_of_a_repository_in_the_home_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bubblewrap()
    home = folder / "home"
    make_repository(home / "project")
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id").write_text("hush")
    monkeypatch.setenv("HOME", str(home))
    made = SandboxedFolder(folder / "den", Level.BUBBLEWRAP)
    run_git(home / "project", "worktree", "add", "--quiet", str(folder / "tree"))
    made.root = folder / "tree"
    made.store = folder / "state" / "perdure.db"
    _, said = made.run("git log --format=%s")
    assert said == "first\n"
    (made.root / ".git").write_text(f"gitdir: {home / '.ssh'}\n")  # a link that the other side does not confirm
    _, said = made.run(f"cat {home}/.ssh/id")
    assert "hush" not in said


@pytest.mark.slow
def test_no_other_session_can_be_found_in_the_default_store(work: AgentFolder) -> None:
    need_bubblewrap()
    hidden = Path(os.environ["XDG_DATA_HOME"], "perdure")
    hidden.mkdir(parents=True)
    (hidden / "perdure.db").write_text("a prompt of another session")
    looks = f"grep -r 'of another session' {hidden} {work.terminal.folder}; echo looked"
    begin = work.script(calls("I look.", ("run_command", {"command": looks})), "Done.")
    assert work(*begin, "--allow", "run_command", "--once").code == 0
    said = work("show", "one", "--json").out
    assert "looked" in said
    assert "perdure.db: binary file matches" not in said
    assert "a prompt of another session" not in said


@pytest.mark.slow
def test_a_journal_left_beside_a_store_in_the_folder_changes_nothing(work: AgentFolder) -> None:
    """A hot rollback journal would be played back into the store when it is next opened."""
    need_bubblewrap()
    store = work.folder / "perdure.db"
    forge = f"head -c 4096 /dev/urandom > {store}-journal; ls {store}*; rm -f {store}-journal {store}-wal; echo done"
    begin = work.script(calls("I forge.", ("run_command", {"command": forge})), "Done.")
    assert work(*begin, "--allow", "run_command", "--once", "--store", str(store)).code == 0
    assert Path(f"{store}-journal").stat().st_size == 0
    assert work("verify", "--store", str(store)).code == 0


def test_only_the_installation_is_visible_below_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as other, tempfile.TemporaryDirectory(dir="/tmp") as prefix:
        monkeypatch.setattr(sys, "prefix", prefix)
        visible = home_folders.readable(tmp_path)
        assert Path(prefix) in visible
        assert not {Path("/tmp"), Path(other)} & {*visible}


@pytest.mark.parametrize("level", [Level.BUBBLEWRAP, Level.LANDLOCK])
def test_a_folder_above_a_protected_path_cannot_be_replaced(tmp_path: Path, level: Level) -> None:
    """The kernel lets a folder above a mount point be renamed, unless it is a mount point itself."""
    need_bubblewrap()
    sandbox = SandboxedFolder(tmp_path, level)
    deep = sandbox.root / "a" / "b" / "state"
    deep.mkdir(parents=True)
    (deep / "perdure.db").write_text("the record")
    workspace = Workspace(sandbox.root, session_uid="u", scratch=tmp_path / "scratch", protected=(deep,))
    sandbox.run("mv a a2; mkdir -p a/b/state; echo forged > a/b/state/perdure.db; true", workspace=workspace)
    assert (deep / "perdure.db").read_text() == "the record"
    assert not (sandbox.root / "a2" / "b" / "state" / "perdure.db").exists()


def test_perdures_own_code_below_a_folder_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_bubblewrap()
    sandbox = SandboxedFolder(tmp_path, Level.BUBBLEWRAP)
    package = sandbox.root / "src" / "perdure"
    package.mkdir()
    (package / "__init__.py").write_text("ours")
    monkeypatch.setattr(bubblewrap, "own_code", lambda _: (package,))
    _, said = sandbox.run("mv src other; mkdir -p src/perdure; echo theirs > src/perdure/__init__.py; echo x > src/y")
    assert "busy" in said
    assert ((package / "__init__.py").read_text(), (sandbox.root / "src" / "y").read_text()) == ("ours", "x\n")


def test_a_folder_with_a_mount_of_the_kernel_is_refused(tmp_path: Path) -> None:
    workspace = Workspace(Path("/proc"), session_uid="u", scratch=tmp_path)
    with pytest.raises(NotDone, match="is a mount of proc"):
        command_line(workspace, ["/bin/true"], level=Level.LANDLOCK, temporary=tmp_path)


async def test_missing_folders_of_the_user_are_made_before_a_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path.resolve()
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(root / name.lower()))
    async with perdure.open("memory:") as runtime:
        protected = set(own_files(runtime, root))
    assert {data_folder(), user_file().parent} <= protected
    assert data_folder().is_dir()
    assert user_file().parent.is_dir()
