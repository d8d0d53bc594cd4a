"""Attack: the settings of a repository name programs, and git outside the sandbox would run them.

Every key of git that names a program is planted with a program of its own that leaves a mark. All that Perdure does
with git is done once in that repository; then each key is a test, which finds no mark of it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from perdure.agent.commands.sandbox import Level
from perdure.agent.files import worktree
from perdure.agent.files.merge import merge_into
from perdure.agent.files.snapshot import Snapshots
from perdure.agent.files.workspace import Workspace, here
from perdure.agent.files.worktree import clear
from perdure.agent.git import programs
from perdure.agent.git.head import head_of
from perdure.agent.git.sandboxed_git import level_of
from perdure.agent.tools.files import list_files
from perdure.agent.tools.git import git_diff, git_log, git_status
from perdure.agent.tools.search import search_files
from perdure.errors import NotDone, PerdureError
from tests.agent.support.requirements import need_bubblewrap
from tests.agent.support.tool_calls import call, do, make_repository, prepared, run_git, trust_hooks, write_hook

FILTERS = ["filter.evil.clean", "filter.evil.smudge", "filter.other.process", "filter.a=b.clean"]
SIGNS = ["gpg.program", "gpg.ssh.program", "gpg.x509.program", "gpg.openpgp.program", "gpg.ssh.defaultKeyCommand"]
REACHES = [
    "core.sshCommand", "core.gitProxy", "core.alternateRefsCommand", "credential.helper",
    "credential.https://example.org.helper", "remote.origin.uploadpack", "remote.origin.receivepack",
    "remote.other.vcs",
]  # fmt: skip
OTHER = [
    "core.fsmonitor", "core.editor", "core.pager", "core.askPass", "sequence.editor", "diff.external",
    "diff.evil.command", "diff.evil.textconv", "merge.evil.driver", "merge.default", "interactive.diffFilter",
    "uploadpack.packObjectsHook", "alias.status", "alias.rev-parse", "pager.log", "pager.diff", "browser.evil.cmd",
    "man.evil.cmd", "mergetool.evil.cmd", "difftool.evil.cmd", "trailer.evil.command", "trailer.evil.cmd",
    "submodule.evil.update", "init.templateDir", "core.hooksPath", "sendemail.smtpServer", "tar.evil.command",
    "url.ext::evil.insteadOf",
]  # fmt: skip
INCLUDED = ["included", "worktree"]  # filters that are named by an included file, and by the settings of a worktree
HOOKS = ["post-checkout", "pre-commit", "reference-transaction"]  # each is slow, and of one kind with all others
ATTRIBUTES = """*.txt filter=evil diff=evil merge=evil text
*.two filter=other
*.three filter=included
*.four filter=worktree
*.five filter=a=b
"""


class Trap:
    """A repository whose settings name programs, and the marks of those that ran outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "place"
        self.marks = folder / "marks"
        self.programs = folder / "programs"
        for one in (self.marks, self.programs):
            one.mkdir()
        make_repository(self.root)
        (self.root / ".gitattributes").write_text(ATTRIBUTES)
        for ending in ("txt", "two", "three", "four", "five"):
            (self.root / f"a.{ending}").write_text("one\n" if ending == "txt" else f"{ending}\n")
        run_git(self.root, "add", "--all")
        run_git(self.root, "commit", "--quiet", "--message=second")
        (self.root / "kept").mkdir()

    def program(self, name: str) -> Path:
        """A program that leaves a mark when it runs outside the sandbox."""
        path = self.programs / name.replace("/", "-")
        then = "exec cat" if name.endswith((".clean", ".smudge")) else "exit 0"
        path.write_text(f"#!/bin/sh\ntouch '{self.marks}/{path.name}' 2>/dev/null\n{then}\n")
        path.chmod(0o755)
        return path

    def plant(self, *keys: str, file: str = "config") -> None:
        """Set each key to a program of its own; a line break in a value would be a second setting."""
        with open(self.root / ".git" / file, "a", encoding="utf-8") as config:
            for key in keys:
                section, _, name = key.rpartition(".")
                kind, _, label = section.partition(".")
                word = "!" if key.startswith(("alias.", "submodule.")) else ""
                config.write(
                    f'[{kind}{label and f" {chr(34)}{label}{chr(34)}"}]\n{name} = "{word}{self.program(key)}"\n'
                )

    @property
    def ran(self) -> set[str]:
        return {one.name for one in self.marks.iterdir()}


@pytest.fixture(scope="module")
def space() -> Iterator[Path]:
    need_bubblewrap()
    with TemporaryDirectory(prefix="perdure-test-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as made:
        yield Path(made)


def use_git(trap: Trap) -> list[str]:
    """All that is done with git; what was refused, by name."""
    shots = Snapshots(trap.root, trap.folder / "home")
    first = shots.take("first")
    (trap.root / "a.txt").write_text("two\n")
    second = shots.take("second")
    shots.check_out(first.tree)
    shots.diff(first.tree, second.tree)
    head = shots.head()
    assert head_of(trap.root) is not None
    worktree.add(trap.root, trap.folder / "home", "bare", commit=head)
    branch = worktree.add(trap.root, trap.folder / "home", "branch", commit=head, snapshot=second.tree)
    assert (branch / "a.txt").read_text() == "two\n"
    merge_into(shots, base=first.tree, ours=first.tree, theirs=second.tree)
    worktree.publish(trap.folder / "home", "branch", "kept")
    for one in worktree.list_worktrees(trap.folder / "home"):
        clear(trap.folder / "home", one, second.tree)
    refused = []
    with Workspace(trap.root, session_uid="u", protected=(trap.root / "kept",)).active():
        for look in (git_status, git_diff, git_log, list_files):
            look()
        search_files("one")
        acts = [
            ("git_commit", {"message": "third"}),
            ("git_commit", {"message": "third"}),
            ("git_branch", {"name": "fix"}),
            ("git_push", {}),
        ]
        for name, given in acts:
            try:
                call(name, **given)
            except NotDone as error:
                refused.append(f"{name}: {error.message}")
                (trap.root / ".gitattributes").write_text(ATTRIBUTES.replace("*.two", "*.none"))
    return refused


@pytest.fixture(scope="module")
def sprung(space: Path) -> tuple[Trap, list[str]]:
    """The repository with every key, after everything was done in it."""
    (space / "all").mkdir()
    trap = Trap(space / "all")
    trap.plant(*FILTERS, *REACHES, *OTHER)
    for name in INCLUDED:
        trap.plant(f"filter.{name}.clean", f"filter.{name}.smudge", file=f"config.{name}")
    outside = trap.folder / "settings"
    (trap.root / ".git/config.included").rename(outside)
    with open(trap.root / ".git/config", "a") as config:
        config.write(f"[include]\npath = {outside}\n[extensions]\nworktreeConfig = true\n")
    for name in HOOKS:
        write_hook(trap.programs / "hooks" / name, f"touch {trap.marks}/core.hooksPath 2>/dev/null\nexit 0\n")
    run_git(trap.root, "config", "core.hooksPath", str(trap.programs / "hooks"))
    return trap, use_git(trap)


@pytest.mark.slow
def test_only_the_push_is_refused_for_the_programs_it_would_need(sprung: tuple[Trap, list[str]]) -> None:
    """The first commit fails by itself, because the filter that is a process does not answer git."""
    trap, refused = sprung
    assert [one.partition(":")[0] for one in refused] == ["git_commit", "git_push"], refused
    assert "only your own settings may" in refused[1]
    assert run_git(trap.root, "-c", "core.fsmonitor=false", "log", "--format=%s", "fix").splitlines()[0] == "third"


@pytest.mark.slow
@pytest.mark.parametrize("key", [*FILTERS, *REACHES, *OTHER, *(f"filter.{one}.clean" for one in INCLUDED)])
def test_no_program_that_a_repository_names_runs_outside(key: str, sprung: tuple[Trap, list[str]]) -> None:
    assert key.replace("/", "-") not in sprung[0].ran


@pytest.mark.slow
def test_the_planted_programs_would_run(sprung: tuple[Trap, list[str]]) -> None:
    """Git as a person runs it does start them, so the tests above look for something."""
    trap, _ = sprung
    (trap.root / ".gitattributes").write_text(ATTRIBUTES)
    files = ["a.txt", "a.two", "a.three", "a.four", "a.five"]
    for name in files:
        (trap.root / name).write_text("other\n")
    add = ("worktree", "add", "--quiet", "--detach", str(trap.folder / "plain"))
    for words in (("diff", "a.txt"), *(("add", name) for name in files), add):
        with suppress(subprocess.CalledProcessError):
            run_git(trap.root, *words)
    expected = {
        "core.fsmonitor",
        "diff.evil.command",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.other.process",
    }
    assert expected | {"filter.included.clean", "filter.worktree.clean", "core.hooksPath"} <= trap.ran


def test_every_key_is_known_to_name_a_program() -> None:
    fixed = {one.partition("=")[0].lower() for one in programs.SETTINGS}
    others = {"merge.default", "core.hookspath", "url.ext::evil.insteadof"}  # set at every start, or no program
    lower = {f"{one.partition('.')[0]}.{one.partition('.')[2]}" for one in (*FILTERS, *SIGNS, *REACHES, *OTHER)}
    unknown = {key for key in lower if not programs.names_program(_as_listed(key))}
    assert {one.lower() for one in unknown} <= fixed | others


def _as_listed(key: str) -> str:
    """As `git config --list` writes it: all but the middle in lower case."""
    section, _, rest = key.partition(".")
    middle, dot, name = rest.rpartition(".")
    return f"{section.lower()}.{middle}{dot}{name.lower()}"


@pytest.mark.parametrize("format", ["openpgp", "ssh"])
def test_a_commit_that_a_repositorys_program_would_sign_is_refused(format: str, folder: Path) -> None:
    need_bubblewrap()
    trap = Trap(folder)
    trap.plant(*SIGNS)
    with open(trap.root / ".git/config", "a") as config:
        config.write(f"[commit]\ngpgSign = true\n[gpg]\nformat = {format}\n[log]\nshowSignature = true\n")
        config.write("[user]\nsigningKey = key::x\n")
    with Workspace(trap.root, session_uid="u").active():
        git_log()
        (trap.root / "a.txt").write_text("two\n")
        with pytest.raises(NotDone, match="only your own settings may"):
            call("git_commit", message="third")
    assert trap.ran == set()


def test_reading_fetches_no_missing_object_from_a_promisor(folder: Path) -> None:
    need_bubblewrap()
    trap = Trap(folder)
    trap.plant("remote.lazy.uploadpack", "core.sshCommand")
    with open(trap.root / ".git/config", "a") as config:
        config.write("[core]\nrepositoryformatversion = 1\n[extensions]\npartialClone = lazy\n")
        config.write(f'[remote "lazy"]\npromisor = true\nurl = {trap.root}.remote\n[protocol "file"]\nallow = always\n')
    blob = run_git(trap.root, "rev-parse", "HEAD:a.two")
    (trap.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    (trap.root / "a.two").write_text("changed\n")
    shots = Snapshots(trap.root, folder / "home")
    with suppress(PerdureError):
        shots.take("first")
    with suppress(PerdureError):
        worktree.add(trap.root, folder / "home", "branch")
    with Workspace(trap.root, session_uid="u").active():
        for name, given in (("git_commit", {"message": "x"}), ("git_branch", {"name": "fix"}), ("git_push", {})):
            with suppress(NotDone):
                call(name, **given)
        for look in (git_status, git_diff, git_log):
            with suppress(NotDone):
                look()
    assert trap.ran == set()
    with suppress(subprocess.CalledProcessError):
        run_git(trap.root, "cat-file", "blob", blob)
    assert trap.ran == {"remote.lazy.uploadpack"}


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
def test_the_settings_of_a_submodule_run_nothing_outside(depth: int, folder: Path) -> None:
    need_bubblewrap()
    trap = Trap(folder)
    library = folder / "library"
    make_repository(library)
    local = ("-c", "protocol.file.allow=always")
    if depth == 2:
        make_repository(folder / "deep")
        run_git(library, *local, "submodule", "--quiet", "add", str(folder / "deep"), "deep")
        run_git(library, "commit", "--quiet", "--message=deep")
    run_git(trap.root, *local, "submodule", "--quiet", "add", str(library), "sub")
    run_git(trap.root, *local, "submodule", "--quiet", "update", "--init", "--recursive")
    run_git(trap.root, "commit", "--quiet", "--message=submodule")
    with Workspace(trap.root, session_uid="u").active():
        (trap.root / "sub/a.txt").write_text("two\n")
        run_git(trap.root / "sub", "commit", "--quiet", "--all", "--message=below")
        assert "sub" in call("git_commit", message="a harmless one is committed").text
        nested, inner = ("modules/sub", "sub") if depth == 1 else ("modules/sub/modules/deep", "sub/deep")
        trap.plant("filter.evil.clean", "core.fsmonitor", file=f"{nested}/config")
        (trap.root / ".git" / nested / "info/attributes").write_text("* filter=evil\n")
        same = (trap.root / inner / "a.txt").read_text()[::-1].strip() + "\n"  # of one size, so that git compares it
        (trap.root / inner / "a.txt").write_text(same)
        (trap.root / "a.txt").write_text("two\n")
        git_status()
        git_diff()
        call("git_commit", key="l" * 64, message="third")
        call("git_branch", name="fix")
    Snapshots(trap.root, folder / "home").take("x")
    assert trap.ran == set()


def test_a_repository_cannot_trust_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_bubblewrap()
    trap = Trap(folder)
    monkeypatch.setenv("HOME", str(folder / "home"))
    run_git(trap.root, "config", "perdure.hooks", "trusted")
    run_git(trap.root, "config", "--add", "perdure.hooks", str(trap.root))
    with Workspace(trap.root, session_uid="u").active():
        assert level_of(here()) is Level.BUBBLEWRAP
        trust_hooks(trap.root, folder / "home")
        assert level_of(here()) is Level.NONE
        trust_hooks(folder, folder / "home")
        assert level_of(here()) is Level.BUBBLEWRAP


def test_settings_that_a_hook_left_with_git_lfs_are_refused(folder: Path) -> None:
    need_bubblewrap()
    trap = Trap(folder)
    (trap.root / ".git/lfs").mkdir()
    run_git(trap.root, "config", "include.path", "lfs/settings")
    settings = f'[perdure]\nhooks = trusted\n[filter "evil"]\nclean = {trap.program("evil")}\n'
    write_hook(trap.root / ".git/hooks/pre-commit", f"cat > .git/lfs/settings <<END\n{settings}END\n")
    with Workspace(trap.root, session_uid="u").active():
        (trap.root / "a.txt").write_text("two\n")
        call("git_commit", message="third")
        assert (trap.root / ".git/lfs/settings").exists()
        (trap.root / "a.txt").write_text("three\n")
        with pytest.raises(NotDone, match="an agent can write"):
            call("git_commit", key="l" * 64, message="fourth")
    assert trap.ran == set()


def test_a_link_in_the_place_of_git_lfs_is_not_writable(folder: Path) -> None:
    need_bubblewrap()
    trap = Trap(folder)
    (trap.root / ".git/lfs").symlink_to(trap.marks)
    write_hook(trap.root / ".git/hooks/pre-commit", f"touch {trap.marks}/hook .git/lfs/hook\nexit 0\n")
    with Workspace(trap.root, session_uid="u").active():
        (trap.root / "a.txt").write_text("two\n")
        git_status()
        call("git_commit", message="third")
    assert trap.ran == set()


SECRETS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PERDURE_STORE", "SECRET_KEY", "LD_LIBRARY_PATH")


def test_nothing_reaches_a_remote_before_approval_and_no_key_after_it(
    repository: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bubblewrap()
    for name in SECRETS:
        monkeypatch.setenv(name, "hush")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    monkeypatch.setenv("HOME", str(folder / "home"))
    (folder / "home").mkdir()
    seen = folder / "seen"
    (folder / "ssh").write_text(f"#!/bin/sh\nenv > {seen}\nexit 1\n")
    (folder / "ssh").chmod(0o755)
    (folder / "home/.gitconfig").write_text(f"[core]\nsshCommand = {folder / 'ssh'}\n")
    run_git(repository, "remote", "set-url", "origin", "ssh://example.org/x.git")
    (repository / "a.txt").write_text("two\n")
    call("git_commit", message="second")
    arguments = prepared("git_push", {}, {})
    assert not seen.exists()
    with pytest.raises(NotDone):
        do("git_push", arguments)
    told = seen.read_text()
    assert "SSH_AUTH_SOCK=/agent" in told
    assert "hush" not in told


def test_a_hook_of_the_remote_sees_no_key(repository: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_bubblewrap()
    for name in SECRETS:
        monkeypatch.setenv(name, "hush")
    write_hook(folder / "place.remote/hooks/post-receive", f"env > {folder}/seen\n")
    (repository / "a.txt").write_text("two\n")
    call("git_commit", message="second")
    call("git_push")
    assert "hush" not in (folder / "seen").read_text()
