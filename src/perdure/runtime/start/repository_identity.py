"""Which repository a folder belongs to, however it was cloned: by its remote, or else by its first commit.

    github.com/org/app      it has a remote: host and path, the same for ssh, https and the short form; never a login
    commit:4f2a...          it has none, or one that is a folder without remotes: the oldest first commit

So two clones, the worktrees and the branches of a repository are one. A remote that is a folder of this machine is
followed. The name says what the repository claims to be and proves nothing: a process that can write its settings
chooses it.

Only files of the repository are read, and git runs without its settings, without the network and within seconds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from perdure.domain.session import SessionRecord
from perdure.errors import PerdureError
from perdure.ids import check_text
from perdure.runtime.start.git_links import find_git_folders, top_of

LIMIT = 5.0  # seconds that git may take
LONGEST = 500  # characters of an identity
DEPTH = 5  # folders that are remotes of each other and are followed
KEPT = 1000  # repositories whose identity is remembered
DEFAULT_PORTS = {"http": 80, "https": 443, "git": 9418}
FOLDED = {"github.com", "gitlab.com", "bitbucket.org"}  # where the case of a path means nothing
ALIASES = {"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com", "altssh.bitbucket.org": "bitbucket.org"}
CLEAN = {
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "", "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C",
}  # fmt: skip
_SHORT = re.compile(r"(?:[^@/\\]*@)?(\[[^\]]+\]|[^:/\\\[\]]{2,}):(?!//)(.*)", re.DOTALL)  # user@host:path
_known: dict[tuple[str, int], str | None] = {}


def identify(folder: str | os.PathLike[str] | None) -> str | None:
    """The identity of the repository around a folder; None outside git, or if it has neither remote nor commit."""
    if folder is None:
        return None
    with suppress(OSError, ValueError, PerdureError):
        return _identify(Path(os.path.realpath(folder)), 0)
    return None


def of_branch(parent: SessionRecord) -> str | None:
    """The repository of a branch: of sealed history from elsewhere, what this machine sees and not what it says."""
    return parent.repository_id if parent.sealed_at is None else identify(parent.repository)


def _identify(folder: Path, depth: int) -> str | None:
    common = _git_folder(folder)
    if common is None:
        return None
    key = (str(common), _changed_at(common))
    if key not in _known:
        found = _by_remote(common, depth) or _by_first_commit(common)
        if found is None:  # a commit may come
            return None
        if len(_known) >= KEPT:
            _known.clear()
        _known[key] = found
    return _known[key]


def _git_folder(folder: Path) -> Path | None:
    """The folder that all working trees of the repository share; also of a bare one."""
    if (top := top_of(folder)) is not None:
        found = find_git_folders(top)
        return None if found is None else found.common
    is_bare = all((folder / name).exists() for name in ("HEAD", "objects", "refs", "config"))
    return folder if is_bare else None


def _changed_at(common: Path) -> int:
    return (common / "config").stat().st_mtime_ns


def _by_remote(common: Path, depth: int) -> str | None:
    """By `origin`, or by the only remote, or by the first by name."""
    listed = _git("config", "--file", str(common / "config"), "--null", "--get-regexp", r"^remote\..*\.url$")
    urls: dict[str, str] = {}
    for entry in listed.split("\0"):
        name, _, url = entry.partition("\n")
        urls.setdefault(name[len("remote.") : -len(".url")], url)
    urls.pop("", None)
    if not urls:
        return None
    url = urls.get("origin") or urls[min(urls)]
    if (path := _local_path(url)) is None:
        return normalise(url)
    if depth >= DEPTH:
        return None
    there = path if path.is_absolute() else common.parent / path
    return _identify(Path(os.path.realpath(there)), depth + 1)


def _local_path(url: str) -> Path | None:
    if url.startswith("file://"):
        return Path(urlsplit(url).path)
    return None if "://" in url or _SHORT.fullmatch(url) else Path(url)


def normalise(url: str) -> str | None:
    """The address of a remote without scheme, login, default port and ending; None if it names no repository."""
    parts = _parts(url.strip())
    if parts is None:
        return None
    host, port, path = parts
    host = ALIASES.get(host, host)
    path = re.sub("/+", "/", path).strip("/")
    path = path.removesuffix(".git").rstrip("/")
    if host in FOLDED:
        path = path.casefold()
    found = f"{host}{port}/{path}"
    if not host or not path or len(found) > LONGEST or any(ord(one) < 32 for one in found):
        return None
    return check_text("The repository", found)


def _parts(url: str) -> tuple[str, str, str] | None:
    """Host, port with its colon unless it is the usual one, and path."""
    if "://" not in url:
        short = _SHORT.fullmatch(url)
        return None if short is None else (short[1].strip("[]").lower(), "", short[2])
    try:
        split: SplitResult = urlsplit(url)
        host, port = (split.hostname or "").lower(), split.port
    except ValueError:
        return None
    scheme = split.scheme.lower()
    usual = port is None or "ssh" in scheme or DEFAULT_PORTS.get(scheme) == port
    return host, "" if usual else f":{port}", split.path


def _by_first_commit(common: Path) -> str | None:
    """The oldest commit without parents on a branch, or at HEAD; a shallow clone does not have it."""
    if (common / "shallow").exists():
        return None
    arguments = ("rev-list", "--max-parents=0", "--timestamp", "--branches")
    listed = _git("--git-dir", str(common), *arguments, "HEAD") or _git("--git-dir", str(common), *arguments)
    firsts = [(int(at), commit) for at, _, commit in (line.partition(" ") for line in listed.splitlines())]
    return f"commit:{min(firsts)[1]}" if firsts else None


def _git(*arguments: str) -> str:
    """The output of git; nothing if it fails."""
    found = run_git(*arguments)
    return "" if found is None else found.decode("utf-8", "replace")


def run_git(*arguments: str, given: str = "") -> bytes | None:
    """The output of git that reads a repository, with what it is given to read; None if it fails."""
    program = shutil.which("git")
    if program is None:
        return None
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | CLEAN
    settings = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.devnull, "-c", "safe.directory=*")
    try:
        done = subprocess.run(
            [program, *settings, *arguments], env=env, cwd="/", input=given.encode(), capture_output=True,
            timeout=LIMIT, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
