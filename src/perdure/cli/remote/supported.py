"""Which commands work on a service. The others need the database, the files or the processes of the store itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from perdure.config import is_service
from perdure.errors import ConfigError

if TYPE_CHECKING:
    import click

    from perdure.cli.shell import Shell

COMMANDS = frozenset({
    "answer", "approvals", "approve", "archive", "artifacts", "attach", "audit", "brief", "cancel", "close",
    "decisions", "deny", "diff", "doctor", "effects", "exemptions", "export", "facts", "fork", "import", "interrupt",
    "limits", "ls", "notifications", "orders", "pause", "policy", "principals", "queues", "rename", "resume", "retry",
    "rewind", "rm", "run", "schedules", "search", "send", "settle", "show", "tasks", "token", "top", "tree", "undo",
    "verify", "withdraw", "worker",
})  # fmt: skip


class MissingPart(NamedTuple):
    """What a command needs that a service does not give, and where it works."""

    what: str
    hint: str


DATABASE = MissingPart("the database", "Run it on a machine that reaches the database, with --store and its address.")
FILES = MissingPart("the files of the store", "Run it on the machine that has them, with the address of the store.")
FOLDER = MissingPart(
    "the folder of the session", "Run it on the machine that has the folder, with the address of the store."
)
PROCESSES = MissingPart(
    "the processes of the store", "Run it on the machine where they run, with the address of the store."
)
# The commands, and the parts of commands, that are refused on a service.
REFUSED: Mapping[str, MissingPart] = MappingProxyType({
    "audit verify": DATABASE, "merge": FOLDER, "migrate": DATABASE, "prune": FILES, "restores": DATABASE,
    "rewind --here": FOLDER, "roles": DATABASE, "serve": PROCESSES, "worker --isolate": PROCESSES,
})  # fmt: skip
# Commands that use no store.
WITHOUT = frozenset({"completion", "demo", "evaluate", "keys", "trust"})


def check_supported(context: click.Context, store: str | None) -> None:
    """Refuse a command that does not work on a service, before it does anything."""
    if not is_service(store if store is not None else os.environ.get("PERDURE_STORE")):
        return
    name = command_name(context)
    if name not in COMMANDS | WITHOUT:
        raise refusal(name)


def check_here(shell: Shell, what: str) -> None:
    """Refuse a part of a command that does not work on a service."""
    if is_service(shell.store):
        raise refusal(what)


def refusal(what: str) -> ConfigError:
    """The error of a command that needs what a service does not give."""
    needs = REFUSED.get(what, DATABASE)
    return ConfigError(f"`perdure {what}` does not work on a service: it needs {needs.what}.", hint=needs.hint)


def command_name(context: click.Context) -> str:
    """The name of the command, without its subcommand."""
    names: list[str] = []
    at: click.Context | None = context
    while at is not None and at.parent is not None:
        names.append(at.info_name or "")
        at = at.parent
    return names[-1].split()[0] if names else ""
