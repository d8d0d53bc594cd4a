"""Attack: a command that writes, sends or starts something is written so that it seems only to look."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.agent.commands import sandbox
from perdure.agent.commands.read_only import READ_ONLY, is_read_only, words
from perdure.agent.commands.sandbox import Level
from perdure.agent.files.workspace import Workspace, here
from perdure.agent.tools.command import pick, read_only_environment, read_only_line, run_command, run_read_only
from perdure.errors import NotDone
from perdure.runtime.definitions.tool import Call
from tests.agent.support.requirements import need_bubblewrap
from tests.agent.support.sandbox_run import running_with
from tests.agent.support.tool_calls import make_repository, run_git
from tests.security.acting_programs import LISTED, UNLISTED
from tests.seed import sample

HARMLESS = ("ls", "cat a.txt", "git status", "grep -rn x .", "find . -name a", "echo x", "tail -n 1 a.txt", "rg x")
ACTS = [*UNLISTED, *(f"{program} {option}" for program, options in LISTED.items() for option in options)]
SPACE = st.sampled_from([" ", "  ", "\t", " \t "])
JOINS = (
    ";", "&", "&&", "||", "|", "|&", "\n", "\r\n", "\r", "\n\n", " ;;", "\\\n;", " #\n", "\x0b;", "\u2028;", "\0",
    "<<E\nE\n",
)  # fmt: skip
WRAPS = (
    "$({})", "`{}`", "<({})", ">({})", "${{x:-$({})}}", '"$({})"', '"`{}`"', "$(( $({}) ))", "{{ {};}}", "({})", "!{}",
    "<<< $({})", "\"a\\\"$({})\"", "$'\\x24({})'", "'a'$({})'b'", "*$({})", "a[$({})]=1", "~$({})",
)  # fmt: skip
WRITES = (
    ">out",
    ">>out",
    "1>out",
    "&>out",
    ">&out",
    ">|out",
    "2>out",
    "<>out",
    ">'out'",
    ">\tout",
    "3>out",
    "> $HOME/out",
)
BEFORE = (
    "A=1 ",
    "PATH=. ",
    "LD_PRELOAD=./x ",
    "A= B=2 ",
    "exec ",
    "! ",
    "time ",
    "command ",
    "env ",
    "./",
    "/bin/",
    "\\",
)
USED: dict[str, list[str]] = {"grep": ["x", "."], "rg": ["x", "."], "git": [], "find": ["."], "pwd": []}
WORD = re.compile(r"--[a-z][a-z0-9-]+")


@st.composite
def quoted(draw: st.DrawFn, word: str) -> str:
    """The same word to a shell, written in another way."""
    made = ""
    while word:
        size = draw(st.integers(1, len(word)))
        part, word = word[:size], word[size:]
        how = draw(st.sampled_from(["{}", "'{}'", '"{}"']))
        made += how.format(part) if not {"'", '"', "$", "`", "\\"} & set(part) else part
    return made


@st.composite
def acting(draw: st.DrawFn) -> str:
    """A command that acts: its words quoted in some way, the acting one in some place, perhaps abbreviated."""
    chosen = draw(st.sampled_from(ACTS))
    program = next((one for one in LISTED if chosen.startswith(f"{one} ")), None)
    if program is None:
        found = chosen.split()
    else:
        option = chosen.removeprefix(f"{program} ")
        if option.startswith("--") and "=" not in option and len(option) > 5 and program.startswith("git"):
            option = option[: draw(st.integers(5, len(option)))]
        others = draw(st.lists(st.sampled_from(["a.txt", "HEAD", "-n", "--stat", "-p", "x", "."]), max_size=3))
        work_folder = draw(st.integers(0, len(others)))
        found = [
            *program.split(),
            *others[:work_folder],
            option,
            *others[work_folder:],
            *draw(st.sampled_from([[], ["--", "a"]])),
        ]
    return draw(SPACE).join(draw(quoted(word)) for word in found)


@given(acting())
@example("git log -n -- --output=out")
@example("find -- . -delete")
@example("tail -n 1 +1f a.txt")
@example("egrep x a.txt")
def test_no_command_that_acts_is_read_only(command: str) -> None:
    assert not is_read_only(command)


@given(st.sampled_from(HARMLESS), acting(), st.sampled_from(JOINS), st.sampled_from(WRAPS), st.booleans(), SPACE)
def test_no_second_command_hides_behind_a_harmless_one(
    harmless: str, hidden: str, join: str, wrap: str, joined: bool, space: str
) -> None:
    assert not is_read_only(harmless + space + (join + space + hidden if joined else wrap.format(hidden)))


@given(st.sampled_from(HARMLESS), st.sampled_from(WRITES), st.sampled_from(BEFORE), st.booleans())
def test_no_redirection_or_prefix_is_read_only(harmless: str, write: str, before: str, at_end: bool) -> None:
    assert is_read_only(harmless)
    assert not is_read_only(f"{harmless} {write}")
    assert not is_read_only(f"{write} {harmless}")
    assert not is_read_only(before + harmless + (" a" if at_end else ""))


@given(st.text(alphabet=st.sampled_from("ls cat-o=./'\"$`\\;&|<>(){}[]*?!#~\n\r\t\0\u2028éA0"), max_size=30))
def test_what_passes_has_the_words_that_a_shell_would_find(text: str) -> None:
    command = f"echo {text}"
    if is_read_only(command):
        said = subprocess.run(["/bin/sh", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout
        assert said.decode().split("\0")[:-1] == words(command)


@pytest.fixture
def world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose settings name programs that leave a mark, and a home folder beside it."""
    root = folder / "world" / "place"
    make_repository(root)
    home = folder / "world" / "home"
    home.mkdir()
    evil = folder / "world" / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {folder}/world/mark\ncat\n")
    evil.chmod(0o755)
    for key in ("diff.external", "diff.x.textconv", "gpg.program", "core.fsmonitor", "core.pager", "diff.x.command"):
        run_git(root, "config", key, str(evil))
    run_git(root, "config", "log.showSignature", "true")
    run_git(root, "config", "format.pretty", "%G?")
    run_git(root, "config", "pretty.named", "%G?")
    (root / ".gitattributes").write_text("*.txt diff=x\n")
    (root / "a.txt").write_text("two\n")
    (root / "egrep").symlink_to(evil)
    (root / "grep").symlink_to(evil)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{root}")
    return root


def state(folder: Path) -> dict[str, tuple[int, int, int, int]]:
    """Everything in a folder with its content's size and its times."""
    found = {}
    for work_folder, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            seen = os.lstat(os.path.join(work_folder, name))
            found[os.path.join(work_folder, name)] = (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_mode)
    return found


def offered(world: Path) -> list[str]:
    """Every option that a listed program says it has, with values that it could write to or start."""
    values = ("", "=out", " out", f"={world.parent}/evil", " 1", " -- -x")
    made = []
    for program in READ_ONLY:
        if shutil.which(program.split()[0]) is None:
            continue
        asked = [*program.split(), "-h" if program.startswith("git") else "--help"]
        said = subprocess.run(asked, capture_output=True, text=True, cwd=world, stdin=subprocess.DEVNULL, timeout=180)
        characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        options = {*WORD.findall(said.stdout + said.stderr), *(f"-{character}" for character in characters)}
        after = " ".join(USED.get(program.split()[0], ["a.txt"]))
        made += [f"{program} {option}{value} {after}" for option in sorted(options) for value in values]
    return made


@pytest.mark.slow
def test_commands_that_pass_change_nothing_and_start_nothing(world: Path) -> None:
    """Without a sandbox, so that only the rules and the options that we add protect."""
    passing = [command for command in offered(world) if is_read_only(command)]
    assert len(passing) > 500
    before = state(world.parent)
    with Workspace(world, session_uid="u").active():
        told = read_only_environment(here(), Level.NONE, world.parent / "home") | {"WORLD": str(world)}
        for command in [*sample(passing, 150), *(one for one in HARMLESS if one != "rg x"), "git diff", "git log -p"]:
            line = read_only_line(words(command) or [])
            assert line is not None
            subprocess.run(line, cwd=world, stdin=subprocess.DEVNULL, capture_output=True, timeout=180, env=told)
            assert state(world.parent) == before, command
    assert running_with(f"WORLD={world}") == []


@pytest.mark.parametrize("level", [Level.BUBBLEWRAP, Level.NONE])
def test_git_looks_unasked_only_in_a_sandbox(level: Level, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The filters of a repository are programs that it names."""
    if level is Level.BUBBLEWRAP:
        need_bubblewrap()
    run_git(world, "config", "filter.x.clean", str(world.parent / "evil"))
    (world / ".gitattributes").write_text("*.txt filter=x\n")
    monkeypatch.setattr("perdure.agent.tools.command.available", lambda *_: level)
    with Workspace(world, session_uid="u", scratch=world.parent / "scratch").active():
        asked = pick({"command": "'git' status"}) is run_command
        assert asked == (level is Level.NONE)
        if not asked:
            assert not run_read_only(Call("k", 1, "s", "e"), "git status").failed
        with pytest.raises(NotDone) if asked else nullcontext():
            run_read_only(Call("k", 1, "s", "e"), "git diff")
    assert not (world.parent / "mark").exists()


def test_a_command_that_only_looks_has_no_network(work_folder: Path) -> None:
    need_bubblewrap()
    here().network = True
    line = sandbox.command_line(here(), ["/bin/true"], level=Level.BUBBLEWRAP, temporary=work_folder, read_only=True)
    assert "--unshare-net" in line
    line = sandbox.command_line(here(), ["/bin/true"], level=Level.LANDLOCK, temporary=work_folder, read_only=True)
    assert "--network" not in line
