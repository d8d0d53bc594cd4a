"""Recognizes a clone of the repository that a session worked in: by its first commits, not by its path."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from perdure.agent.git.command_line import SAFE, Repository, find, run
from perdure.interchange.session_files import SessionFiles

MOST_ROOTS = 100


def root_commits(repository: Repository) -> list[str]:
    """The first commits of what is checked out."""
    words = ("rev-list", "--max-parents=0", f"--max-count={MOST_ROOTS}", "HEAD")
    code, out = run(*words, cwd=repository.top, answers=(0, 128), settings=SAFE)
    return sorted(out.decode().split()) if code == 0 else []


def remotes(repository: Repository) -> list[str]:
    """The addresses of the remotes, without user names, passwords and tokens; paths on this machine are left out."""
    words = ("config", "--get-regexp", "-z", r"^remote\..*\.url$")
    code, out = run(*words, cwd=repository.top, answers=(0, 1, 128), settings=SAFE)
    entries = out.decode(errors="replace").split("\0") if code == 0 else []
    found = (without_credentials(one.partition("\n")[2]) for one in entries if one)
    return sorted({one for one in found if one is not None})


def without_credentials(address: str) -> str | None:
    """The address of a remote without its credentials; None for a path on this machine."""
    if "://" in address:
        try:
            parts = urlsplit(address)
            port = "" if parts.port is None else f":{parts.port}"
        except ValueError:
            return None
        if parts.scheme not in ("http", "https", "ssh", "git") or not parts.hostname:
            return None
        return urlunsplit((parts.scheme, f"{parts.hostname}{port}", parts.path, "", ""))
    found = re.fullmatch(r"(?:[^@/:]+@)?([A-Za-z0-9.-]+):([^:]+)", address)
    return None if found is None else f"ssh://{found[1]}/{found[2].lstrip('/')}"


def published_commit(repository: Repository) -> str | None:
    """The newest commit below what is checked out that a remote has, as far as is known here."""
    words = ("rev-list", "--boundary", "HEAD", "--not", "--remotes")
    code, out = run(*words, cwd=repository.top, answers=(0, 128), settings=SAFE)
    if code or not remotes(repository):
        return None
    lines = out.decode().split()
    if not lines:
        return head(repository)
    return next((one[1:] for one in lines if one.startswith("-")), None)


def head(repository: Repository) -> str | None:
    words = ("rev-parse", "--verify", "--quiet", "HEAD")
    code, out = run(*words, cwd=repository.top, answers=(0, 1, 128), settings=SAFE)
    return out.decode().strip() if code == 0 else None


def has_commit(repository: Repository, commit: str) -> bool:
    words = ("cat-file", "-e", f"{commit}^{{commit}}")
    return run(*words, cwd=repository.top, answers=(0, 1, 128), settings=SAFE)[0] == 0


def clone_at(folder: Path, about: SessionFiles) -> Path | None:
    """The folder of the session in the clone that holds `folder`; None if that is no clone of the same repository."""
    repository = find(folder) if folder.is_dir() else None
    if repository is None or repository.object_format != about.object_format:
        return None
    is_clone = set(about.roots) & set(root_commits(repository)) or (
        about.commit is not None and has_commit(repository, about.commit)
    )
    return repository.top / about.prefix if is_clone else None
