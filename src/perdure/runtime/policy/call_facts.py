"""The facts of a call: what a policy may look at, from the call's own arguments and from what its host knows.

A rule may not depend on what the caller says about itself, so the facts come from what will be done: the targets that
the tool names for its arguments, the arguments themselves, and the folder. Links in a path are followed, as the tool
would follow them; a path inside the folder is relative to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from perdure.domain.policy import Facts
from perdure.domain.policy.facts import Action
from perdure.domain.session import SessionRecord
from perdure.runtime.definitions.tool import Tool

PATHS = ("path", "paths", "file", "files", "folder", "directory")  # arguments that name files
RUNNERS = ("run_command", "run_command.look")  # tools that ship and run what a shell is given
MODEL_CALL = "perdure.model_call"  # the tool of an approval of a model call; it is judged as that call
PATH_TARGETS = ("path:", "file:", "folder:")


class CallSite(msgspec.Struct, frozen=True, kw_only=True):
    """What the host of a call knows of it, besides its arguments. What is not known is None, and counts as unlimited.

    `folder` is what relative paths are relative to, and `cost` what the session has spent, in millionths of a dollar.
    """

    folder: Path | None = None
    sandbox: str | None = None
    network: bool | None = None
    model: str | None = None
    origins: tuple[str, ...] = ()
    cost: int = 0


class NoSession(msgspec.Struct, frozen=True):
    """Stands for the session of a call that belongs to none: a person asks how it would be judged."""

    id: str = ""
    owner: str | None = None
    queue: str | None = None
    repository: str | None = None
    repository_id: str | None = None
    model: str | None = None


def folder_of(session: SessionRecord | NoSession) -> Path | None:
    """The folder of a session's repository, if it is one."""
    named = session.repository
    return Path(named) if named is not None and os.path.isabs(named) else None


def facts_of(
    tool: Tool[..., Any], arguments: dict[str, Any], session: SessionRecord, site: CallSite, action: Action = "do"
) -> Facts:
    """The facts of one call. An undo has the name of the tool that it takes back."""
    if tool.name == MODEL_CALL:
        return model_facts(str(arguments["model"]), session, site)
    return recorded_facts(
        tool.undoes or tool.name, str(tool.replay), str(tool.reach), arguments, tuple(tool.targets_of(arguments)),
        session, site, action,
    )  # fmt: skip


def recorded_facts(
    tool: str, replay: str, reach: str, arguments: dict[str, Any], targets: tuple[str, ...],
    session: SessionRecord | NoSession,
    site: CallSite, action: Action = "do",
) -> Facts:  # fmt: skip
    """The facts of a call whose tool need not be loaded here."""
    command = arguments.get("command") if tool in RUNNERS or reach == "machine" else None
    return Facts(
        action=action, tool=tool, replay=replay, reach=reach, arguments=arguments, targets=targets,  # type: ignore[arg-type]
        paths=tuple(dict.fromkeys(_paths(arguments, targets, site.folder))),
        command=command if isinstance(command, str) else None,
        remote=_text(arguments, "address") or _text(arguments, "remote") or _target(targets, "remote:"),
        branch=_text(arguments, "branch") or _target(targets, "branch:"),
        repository=session.repository_id, sandbox=site.sandbox, network=site.network, cost=site.cost,
        owner=session.owner, queue=session.queue, model=site.model, session_id=session.id, origins=site.origins,
    )  # fmt: skip


def model_facts(model: str, session: SessionRecord | NoSession, site: CallSite) -> Facts:
    """The facts of a call of a model."""
    return Facts(
        action="model", tool="model", replay="pure", reach="model", arguments={"model": model},
        repository=session.repository_id, cost=site.cost, owner=session.owner, queue=session.queue, model=model,
        session_id=session.id, origins=site.origins,
    )  # fmt: skip


def _text(arguments: dict[str, Any], name: str) -> str | None:
    found = arguments.get(name)
    return found if isinstance(found, str) and found else None


def _target(targets: tuple[str, ...], prefix: str) -> str | None:
    return next((one.removeprefix(prefix) for one in targets if one.startswith(prefix)), None)


def _paths(arguments: dict[str, Any], targets: tuple[str, ...], folder: Path | None) -> Iterator[str]:
    for name in PATHS:
        found = arguments.get(name)
        for one in found if isinstance(found, list) else (found,):
            if isinstance(one, str) and one:
                yield _resolved(one, folder)
    for target in targets:
        prefix = next((one for one in PATH_TARGETS if target.startswith(one)), None)
        if prefix is not None and len(target) > len(prefix):
            yield _resolved(target.removeprefix(prefix), folder)


def _resolved(path: str, folder: Path | None) -> str:
    """A path with its links followed, relative to the folder if it is inside."""
    try:
        if folder is None:
            return os.path.realpath(path) if os.path.isabs(path) else os.path.normpath(path)
        top = os.path.realpath(folder)
        real = os.path.realpath(os.path.join(top, path))
    except (OSError, ValueError):  # it holds a NUL character, or its links lead in a circle
        return path
    return os.path.relpath(real, top) if real == top or real.startswith(top.rstrip(os.sep) + os.sep) else real
