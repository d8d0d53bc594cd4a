"""The policy of a repository: `.perdure/policy.toml` as it was committed when the session started.

It is read from the commit and not from the folder: an agent edits the folder, and its own edits must not decide what it
may do. The text is recorded with the start of the session, so that every process that runs the session later judges by
the same text, wherever the repository is. Branches and children of the session have the policy of their origin. A
session that was imported into a folder is also under the policy that is committed there: its bundle may claim another.

Only git's objects are read: without settings of the repository, without the network, and within seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from perdure.domain.event import Event
from perdure.domain.policy import PolicyDocument, parse
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, PerdureError
from perdure.ids import digest
from perdure.runtime.start.git_links import find_git_folders, top_of
from perdure.runtime.start.repository_identity import identify, run_git
from perdure.store.move import StoreTransaction
from perdure.store.moves import event

FILE = ".perdure/policy.toml"
LARGEST = 256 << 10  # bytes
DEEPEST = 100  # origins of origins that are looked at
UNREADABLE = 'default = "ask"\n'  # a recorded text that this version of Perdure cannot read
KEPT = 100
_documents: dict[str, PolicyDocument] = {}


def look_at(folder: str | None) -> dict[str, Any]:
    """What a session records of its repository when it starts: its identity, and its policy."""
    return {"repository_id": identify(folder), "repository_policy": read_committed(folder)}


def read_committed(folder: str | os.PathLike[str] | None) -> dict[str, str] | None:
    """The policy in the commit that a folder has checked out, with the commit; None if there is none.

    Raises `ConfigError` if there is one and it cannot be read, or is not a policy.
    """
    if folder is None:
        return None
    try:
        top = top_of(Path(os.path.realpath(folder)))
        found = None if top is None else find_git_folders(top)
    except (OSError, ValueError):
        return None
    if top is None or found is None:
        return None
    answered = run_git("--git-dir", str(found.own), "cat-file", "--batch", given=f"HEAD^{{commit}}\nHEAD:{FILE}\n")
    if answered is None or not answered.strip():
        raise ConfigError(
            f"Whether the repository {top} has a policy ({FILE}) cannot be read: git failed.",
            hint="Install git, or repair the repository: `git status` there shows what is wrong.",
        )
    commit, text = _blob(answered)
    if text is None:
        return None
    parse(text, f"{FILE} in commit {commit[:12]}")
    return {"commit": commit, "text": text}


def _blob(answered: bytes) -> tuple[str, str | None]:
    """The commit and the text, from what git answers: a header for each object, and its content."""
    header, _, rest = answered.partition(b"\n")
    words = header.split()
    if len(words) != 3 or words[1] != b"commit":  # there is no commit yet
        return "", None
    header, _, content = rest[int(words[2]) + 1 :].partition(b"\n")
    there = header.split()
    if len(there) != 3 or there[1] != b"blob":
        return words[0].decode(), None
    if int(there[2]) > LARGEST:
        raise ConfigError(f"The policy {FILE} of the repository has more than {LARGEST:,} bytes.")
    try:
        return words[0].decode(), content[: int(there[2])].decode()
    except UnicodeDecodeError:
        raise ConfigError(f"The policy {FILE} of the repository is not UTF-8.") from None


def recorded(tx: StoreTransaction, session: SessionRecord) -> tuple[PolicyDocument, ...]:
    """The policies that a session is under: that of its start or of the session that it comes from, and those of the
    folders that it got when it was imported."""
    return documents_of(recorded_texts(tx, session))


def recorded_texts(tx: StoreTransaction, session: SessionRecord) -> tuple[str, ...]:
    """The texts of these policies."""
    found: dict[str, None] = {}
    for _ in range(DEEPEST):
        begun = _said(event.after(tx, session.uid, 0, limit=1))
        found |= dict.fromkeys([*begun, *_said(event.notes(tx, session.uid))])
        origin = session.forked_from or session.parent_uid
        row = None if origin is None else tx.one("session.get", uid=origin)
        if begun or row is None:
            return tuple(found)
        session = SessionRecord.from_row(row)
    return (*found, UNREADABLE)


def _said(events: Iterable[Event]) -> list[str]:
    """The texts of policies that these events recorded."""
    bodies = (one.body for one in events)
    said = (body.get("repository_policy") for body in bodies if isinstance(body, dict))
    return [str(one.get("text")) for one in said if isinstance(one, dict)]


def documents_of(texts: Iterable[str]) -> tuple[PolicyDocument, ...]:
    """The documents of recorded texts. One that cannot be read here asks about everything."""
    return tuple(map(_document, texts))


def _document(text: str) -> PolicyDocument:
    name = digest(text)
    if name not in _documents:
        if len(_documents) >= KEPT:
            _documents.clear()
        try:
            _documents[name] = parse(text, f"the policy {FILE} of the repository")
        except PerdureError:
            _documents[name] = parse(UNREADABLE)
    return _documents[name]
