"""Where a folder's branch points, read from git's own files: no process, no lock, nothing written."""

from __future__ import annotations

from pathlib import Path


def head_of(root: Path) -> dict[str, str | None] | None:
    """The branch and the commit that a folder is on; None outside git."""
    git = _git_dir(root)
    if git is None:
        return None
    try:
        said = (git / "HEAD").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    if not said.startswith("ref: "):
        return {"branch": None, "commit": said}
    name = said.removeprefix("ref: ")
    return {"branch": name.removeprefix("refs/heads/"), "commit": _commit(git, name)}


def _git_dir(root: Path) -> Path | None:
    for folder in (root, *root.parents):
        git = folder / ".git"
        if git.is_dir():
            return git
        if git.is_file():  # a worktree or a submodule: the file names the real one
            try:
                return (folder / git.read_text().strip().removeprefix("gitdir: ")).resolve()
            except (OSError, UnicodeDecodeError):
                return None
    return None


def _commit(git: Path, name: str) -> str | None:
    common = git
    try:
        common = (git / (git / "commondir").read_text().strip()).resolve()
    except (OSError, UnicodeDecodeError):
        pass
    for place in (git, common):
        try:
            return (place / name).read_text().strip()
        except (OSError, UnicodeDecodeError):
            continue
    try:
        packed = (common / "packed-refs").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.split(" ", 1)[0] for line in packed if line.endswith(f" {name}")), None)
