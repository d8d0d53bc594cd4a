"""What a command sees of the home folders: what tools need to run, and nothing else.

Home folders hold keys, tokens and browser profiles under names that no list can cover. So a command finds its home
empty, and only what is known to be needed is mounted again, read-only: toolchains, their caches without their
credentials, git's settings, what is on the PATH, and what the user names.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

import perdure
from perdure.runtime.start.git_links import find_git_folders

EMPTY = (Path("/tmp"), Path("/dev/shm"), Path("/run"))  # folders that every command finds empty
READABLE = "PERDURE_READABLE"  # more paths that commands may read, separated by colons
_TOOLS = [
    ".pyenv",
    ".rustup",
    ".nvm",
    ".volta",
    ".fnm",
    ".asdf",
    ".sdkman",
    ".rbenv",
    ".rvm",
    ".ghcup",
    ".opam",
    ".deno",
    ".bun",
    ".dotnet",
    ".juliaup",
    ".julia/juliaup",
    ".conda",
    "miniconda3",
    "anaconda3",
    "miniforge3",
    "mambaforge",
    "go",
    ".nix-profile",
    ".cargo/bin",
    ".cargo/registry",
    ".cargo/git",
    ".cargo/config.toml",
    ".cargo/env",
    ".npm/_cacache",
    ".m2/repository",
    ".m2/wrapper",
    ".gradle/caches",
    ".gradle/wrapper",
    ".nuget/packages",
    ".gem/ruby",
    ".gem/specs",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/uv",
    ".local/share/mise",
    ".local/share/fnm",
    ".local/share/pnpm",
    ".local/share/pipx",
    ".local/share/virtualenvs",
    ".local/share/rtx",
    ".cache/pip",
    ".cache/uv",
    ".cache/go-build",
    ".cache/pypoetry",
    ".cache/yarn",
    ".cache/deno",
    ".gitconfig",
    ".config/git/config",
    ".config/git/ignore",
    ".config/git/attributes",
    ".editorconfig",
    ".vimrc",
    ".inputrc",
    ".config/ruff",
    ".tool-versions",
    ".python-version",
    ".nvmrc",
]


def homes() -> tuple[Path, ...]:
    """Every folder that holds home folders, or is one."""
    found = {Path("/root"), Path("/home"), Path.home()}
    try:
        found.add(Path(pwd.getpwuid(os.geteuid()).pw_dir))
    except KeyError:  # a container's user may have a number and no entry
        pass
    real = {Path(os.path.realpath(one)) for one in found} - {Path("/")}
    return tuple(sorted(one for one in real if os.path.isdir(one) and not any(other in one.parents for other in real)))


def readable(root: Path) -> tuple[Path, ...]:
    """The paths in home folders and in `EMPTY` that a command may read. Never a whole home folder, nor its parent.

    Perdure itself may be installed below `/tmp`, for example in a test environment.
    """
    own = [Path.home() / name for name in _TOOLS]
    own += [Path(entry) for entry in os.get_exec_path() if os.path.isabs(entry)]
    own += [Path(sys.prefix), Path(sys.base_prefix), Path(perdure.__file__).parents[1]]
    own += [Path(os.environ[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if os.environ.get(name)]
    own += [Path(entry) for entry in os.environ.get(READABLE, "").split(":") if os.path.isabs(entry)]
    own += _repository(root)
    tops = (*homes(), *EMPTY)
    inside = dict.fromkeys(path for path in own if os.path.exists(path) and _is_inside(path, tops))
    return tuple(path for path in inside if not any(other in path.parents for other in inside))


def _is_inside(path: Path, tops: tuple[Path, ...]) -> bool:
    """Whether a path lies in one of these folders, and is not a home folder itself, also by its real path."""
    real = Path(os.path.realpath(path))
    if real.parent == Path("/home") or real == Path(os.path.realpath(Path.home())):
        return False
    return all(any(top in one.parents for top in tops) for one in (path, real))


def _repository(root: Path) -> list[Path]:
    """The repository that a worktree belongs to, if that repository confirms it: a file `.git` alone is no proof."""
    found = find_git_folders(root)
    return [] if found is None else [found.common]
