"""Permissions of a session: what it may do without asking, and where.

They are given by the person who starts a session, on the machine where it runs. A session that comes from elsewhere
has none of them: its row and its log were written by the maker of the bundle.

What a person allows with an approval is an exemption (`domain.exemption`).
"""

from __future__ import annotations

from typing import Any

from perdure.domain.record import same_json

PROGRAM = "agent"  # the agent of the command line keeps its permissions in its arguments
ARGUMENTS = ("allow", "base_url", "environment", "network", "unsandboxed")
REPOSITORY = "repository"
APPROVALS = "approvals"  # the answers of people to effects that are not settled
NAMES = (*ARGUMENTS, APPROVALS, REPOSITORY)
LARGE = ":artifact"  # arguments that are kept as an artifact have this one key


def granted(program: str, arguments: Any, repository: str | None) -> dict[str, Any]:
    """The permissions that a session has, by name."""
    given = arguments if program == PROGRAM and isinstance(arguments, dict) else {}
    found = {name: given[name] for name in ARGUMENTS if given.get(name)}
    return found if repository is None else found | {REPOSITORY: repository}


def without(arguments: Any, names: frozenset[str]) -> Any:
    """Arguments without some permissions."""
    if not isinstance(arguments, dict):
        return arguments
    return {name: value for name, value in arguments.items() if name not in names or name not in ARGUMENTS}


def is_reduced(program: str, row: Any, log: Any) -> bool:
    """Whether arguments are those of the log, or those with fewer permissions."""
    if same_json(row, log):
        return True
    if program != PROGRAM or not isinstance(row, dict) or not isinstance(log, dict):
        return False
    return same_json(row, without(log, frozenset(ARGUMENTS) - row.keys()))


def is_large(arguments: Any) -> bool:
    """Whether arguments are kept as an artifact."""
    return isinstance(arguments, dict) and arguments.keys() == {LARGE}
