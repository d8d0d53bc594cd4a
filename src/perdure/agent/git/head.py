"""Where a folder's branch points, read from git's own files: no process, no lock, no write."""

from __future__ import annotations

from pathlib import Path

from perdure.runtime.start.git_links import GitFolders, find_git_folders, top_of


def head_of(root: Path) -> dict[str, str | None] | None:
    """The branch and the commit that a folder has checked out; None outside git."""
    top = top_of(root)
    found = None if top is None else find_git_folders(top)
    if found is None:
        return None
    git = found.own
    try:
        text = (git / "HEAD").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    if not text.startswith("ref: "):
        return {"branch": None, "commit": text}
    name = text.removeprefix("ref: ")
    if not name.startswith("refs/") or ".." in name.split("/"):
        return None
    return {"branch": name.removeprefix("refs/heads/"), "commit": _commit(found, name)}


def _commit(found: GitFolders, name: str) -> str | None:
    for folder in (found.own, found.common):
        try:
            return (folder / name).read_text().strip()
        except (OSError, UnicodeDecodeError):
            continue
    try:
        packed = (found.common / "packed-refs").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.split(" ", 1)[0] for line in packed if line.endswith(f" {name}")), None)
