"""Git commands that change something, with the programs that git runs by itself kept in the sandbox.

Git itself stays outside: it needs `.git`, the user's keys and, for a push, the network. The programs that git would run
for the folder, every hook and every filter, are replaced by the hook runner (`perdure.agent.git.hook_runner`), so they
run as commands do: at the same level, with the same limits, and refused where no sandbox is available.

Some programs have to run outside: those that sign, supply passwords or reach the remote. They are accepted only from
the user's own settings, global or through `includeIf`. A git command that needs such a program from the repository's
settings is refused. So is a program or a settings file that lies in the folder: an agent could have written it. Every
other program that the repository names is disabled (`perdure.agent.git.programs`).

A user who trusts what the hooks of a repository run says so with `git config --global --add perdure.hooks FOLDER`, or
with the word `trusted` for all repositories; then git runs them itself. The repository's own settings cannot grant
this.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile, gettempdir

import msgspec

from perdure import faults
from perdure.agent.commands import cgroup
from perdure.agent.commands.sandbox import Level, command_line, environment, level_for
from perdure.agent.commands.state import Bounds, limits_of
from perdure.agent.files.workspace import Workspace, here
from perdure.agent.git import hook_runner, programs
from perdure.agent.git.programs import FILTER, HOOK, REACHES, SIGNS
from perdure.agent.git.repository import (
    GitResult,
    git_folders,
    git_program,
    lfs_folders,
    query,
    start_git,
    stop_git,
    text_of,
)
from perdure.durable import make_folder
from perdure.errors import NotDone
from perdure.ids import digest
from perdure.runtime.start.git_links import find_git_folders
from perdure.runtime.workers.private_folder import runtime_folder

GIT_SECONDS = 600  # seconds; hooks run tests
TRUSTED = "perdure.hooks"
_RUNS_OUTSIDE = {
    "commit": (SIGNS,),
    "push": (SIGNS, REACHES),
}  # the programs that a command runs outside, if they are set
# Imported, and not run as a file, because then it is compiled only once; last on the path, so that it hides nothing.
_SCRIPT = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from perdure.agent.git import hook_runner; hook_runner.main(*sys.argv[2:])"
)


class GitSetting(msgspec.Struct, frozen=True):
    """One of git's settings, and the file that it comes from.

    An agent can write a file of the folder and, through a hook, the folder of Git LFS. `is_personal`: not from the
    repository.
    """

    key: str
    value: str
    file: Path | None
    is_writable: bool
    is_personal: bool


def run_git(lock: int, *arguments: str, given: bytes = b"", settings: Sequence[str] = ()) -> GitResult:
    """Run a git command that changes something, with the lock of `write_lock`."""
    with (
        _hook_environment(arguments[0]) as variables,
        TemporaryFile() as source,
        TemporaryFile() as text,
        TemporaryFile() as error,
    ):
        faults.point("git.before")
        source.write(given)
        source.seek(0)
        with start_git(arguments, source, text, error, lock=lock, settings=settings, variables=variables) as git:
            try:
                code = git.wait(GIT_SECONDS)
            except subprocess.TimeoutExpired:
                stop_git(git)
                code = min(git.wait(), -1)
        faults.point("git.after")
        return GitResult(code, text_of(text).encode(), text_of(error))


def check_programs() -> None:
    """Refuse a push that would run, outside the sandbox, what an agent could have written or the repository names."""
    git_settings = _read_settings()
    if not _is_trusted(git_settings):
        _check(git_settings, "push")


def level_of(workspace: Workspace) -> Level:
    """The sandbox level of hooks and filters in this workspace."""
    with workspace.active():
        return _level(_read_settings())


def _level(git_settings: list[GitSetting]) -> Level:
    return Level.NONE if _is_trusted(git_settings) else level_for(here())


def _read_settings() -> list[GitSetting]:
    """Every setting of git here except those that we pass on the command line; later entries win."""
    listed = query("config", "--list", "--show-scope", "--show-origin", "-z", limit=8 << 20)
    parts = listed.text.decode(errors="surrogateescape").split("\0")
    repository = find_git_folders(here().root)
    kept = None if repository is None else repository.common / "lfs"
    found = []
    for scope, origin, setting in zip(parts[::3], parts[1::3], parts[2::3], strict=False):
        kind, _, path = origin.partition(":")
        key, _, value = setting.partition("\n")
        if scope == "command":
            continue
        file = (here().root / path).resolve() if kind == "file" else None
        writable = file is not None and (_is_in_folder(file) or kept in file.parents)
        found.append(GitSetting(key, value, file, writable, scope in programs.PERSONAL and not writable))
    return found


def _is_trusted(git_settings: list[GitSetting]) -> bool:
    """Whether the user's own settings trust every repository, or this one by its folder."""
    words = [one.value for one in git_settings if one.key == TRUSTED and one.is_personal]
    found = find_git_folders(here().root)
    folders = {str(here().root)} | ({str(found.common.parent)} if found and found.common.name == ".git" else set())
    return words[-1:] == ["trusted"] or bool(folders & set(words))


def _is_in_folder(file: Path) -> bool:
    return here().root in file.parents and here().root / ".git" not in file.parents


def _check(git_settings: list[GitSetting], command: str) -> None:
    way = f"Take it out of the folder, or trust the folder: git config --global --add {TRUSTED} {here().root}"
    for one in git_settings:
        if one.is_writable:
            raise NotDone(f"Git's settings include {one.file}, which an agent can write.", hint=way)
        runs = [uses for uses in (SIGNS, REACHES) if uses.fullmatch(one.key)]
        if runs and (found := _in_folder(one.value)) is not None:
            raise NotDone(f"Git's {one.key} runs {found}, which an agent can write.", hint=way)
        if HOOK.fullmatch(one.key):
            raise NotDone(f"{one.key} is a hook that cannot be run in the sandbox.", hint=way)
        if not one.is_personal and any(uses in _RUNS_OUTSIDE.get(command, ()) for uses in runs):
            raise NotDone(
                f"The settings of this repository name a program, {one.key}, and only your own settings may.",
                hint=f"Set it with `git config --global`, or trust: git config --global --add {TRUSTED} {here().root}",
            )


def _in_folder(command: str) -> Path | None:
    """The file in the folder that a command names, if any."""
    try:
        words = shlex.split(command.removeprefix("!"))
    except ValueError:
        words = command.split()
    for word in words:
        path = Path(os.path.normpath(here().root / os.path.expanduser(word)))
        if here().root in path.resolve().parents and path.is_file():
            return path
    return None


@contextmanager
def _hook_environment(command: str) -> Iterator[dict[str, str]]:
    """The environment that makes git use hook runners and no program that the repository names."""
    git_settings = _read_settings()
    level = _level(git_settings)
    if level is Level.NONE:  # git runs hooks itself, so it gets the variables that they need
        variables = environment(here(), level, Path(gettempdir()))
        yield {name: value for name, value in variables.items() if name != "PATH" and not name.startswith("GIT_")}
        return
    _check(git_settings, command)
    named = {one.key for one in git_settings if not one.is_personal and programs.names_program(one.key)}
    settings = programs.disable({key for key in named if not FILTER.fullmatch(key)})
    scratch = here().scratch or runtime_folder() / "commands" / here().session_uid
    folder = scratch / f"git-{digest(os.fsencode(here().root))[:16]}"
    shutil.rmtree(
        folder, ignore_errors=True
    )  # left by a git command that was killed: we hold the lock, so it has ended
    make_folder(folder)
    group = cgroup.make(Bounds().processes)
    try:
        settings |= _install_hooks(level, scratch, folder, git_settings, str(group or ""))
        yield programs.as_environment(settings)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if group is not None:
            cgroup.remove(group)


def _install_hooks(
    level: Level, scratch: Path, folder: Path, git_settings: list[GitSetting], group: str
) -> dict[str, str]:
    """Write the specification of the hook runners, and install one for every hook and filter."""
    git_dir, common, hooks_folder, objects = git_folders("hooks", "objects")
    hooks = {path.name: str(path) for path in _hooks(hooks_folder)}
    filters = {one.key.removeprefix("filter."): one.value for one in git_settings if FILTER.fullmatch(one.key)}
    spec, temporary = folder / "spec.json", folder / "place"
    lfs = lfs_folders(common)
    line = command_line(
        here(), [], level=level, temporary=temporary, hidden=(scratch,), shown=(git_dir, common, hooks_folder),
        granted=(*lfs, temporary) if level is Level.BUBBLEWRAP else lfs,
    )  # fmt: skip
    content = {
        "line": line[:-1], "temporary": str(temporary), "refs": _own_refs(level, temporary, common),
        "environment": environment(here(), level, temporary), "limits": limits_of(Bounds(seconds=GIT_SECONDS)),
        "cgroup": group, "hooks": hooks, "filters": filters, "git": git_program(), "index": str(git_dir / "index"),
        "common": str(common), "objects": str(objects),
    }  # fmt: skip
    spec.write_text(json.dumps(content), encoding="utf-8")
    (folder / "hooks").mkdir()
    for name in hooks:
        _write_hook(folder / "hooks" / name, _call(spec, "hook", name))
    return {"core.hooksPath": str(folder / "hooks")} | _filter_settings(spec, filters)


def _hooks(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir() if folder.is_dir() else ():
        if "." not in path.name and path.is_file() and os.access(path, os.X_OK):  # the samples have a file extension
            yield path


def _own_refs(level: Level, temporary: Path, common: Path) -> list[str]:
    """Bubblewrap can mount a copy of the refs over the user's, so that a hook can stash."""
    if level is not Level.BUBBLEWRAP:
        return []
    names = [name for name in ("refs", "logs") if (common / name).is_dir()]
    return [word for name in names for word in ("--bind", str(temporary / name), str(common / name))]


def _filter_settings(spec: Path, filters: dict[str, str]) -> dict[str, str]:
    return {
        f"filter.{name}": f"{_call(spec, 'filter', name)}{'' if name.endswith('.process') else ' %f'}"
        for name, command in filters.items()
        if command
    }


def _write_hook(path: Path, call: str) -> None:
    path.write_text(f'#!/bin/sh\nexec {call} "$@"\n', encoding="utf-8")
    path.chmod(0o700)
    if not os.access(path, os.X_OK):  # git would skip it silently
        raise NotDone(f"No program can be run from {path.parent}, so hooks cannot be run in the sandbox.")


def _call(spec: Path, *words: str) -> str:
    package = Path(hook_runner.__file__).parents[3]
    return shlex.join([sys.executable, "-I", "-S", "-c", _SCRIPT, str(package), str(spec), *words])
