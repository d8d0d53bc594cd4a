"""Bugs planted on purpose, only in a forked process, to check that the sweeps catch them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest import mock

import apsw
import psycopg

from perdure.artifacts import directory
from perdure.store.databases.postgres.connection import Connection
from perdure.store.databases.sqlite.engine import SQLiteEngine
from perdure.store.move import Log
from perdure.store.writer.group_commit import Engine, GroupCommit, Ran
from perdure.store.writer.ticket import Ticket, answer


def synchronous(setting: str) -> Callable[[], None]:
    """The writer's connection syncs less than it should."""

    def plant() -> None:
        real = SQLiteEngine.__init__

        def begin(self: SQLiteEngine, db: apsw.Connection, *more: Any) -> None:
            db.execute(f"PRAGMA synchronous = {setting}")
            real(self, db, *more)

        mock.patch.object(SQLiteEngine, "__init__", begin).start()

    return plant


def answered_before_commit() -> None:
    real, answered = GroupCommit._commit, set[Ticket[Any]]()

    def commit(self: GroupCommit, engine: Engine, ran: Ran) -> bool:
        answered.update(ticket for ticket, _ in ran)
        answer(ticket for ticket, _ in ran)
        return real(self, engine, ran)

    mock.patch.object(GroupCommit, "_commit", commit).start()
    mock.patch("perdure.store.writer.group_commit.answer", lambda batch: answer(set(batch) - answered)).start()


def chain_not_advanced() -> None:
    real = Log.close

    def close(self: Log) -> None:
        self.chain = self.head.chain
        real(self)

    mock.patch.object(Log, "close", close).start()


def guessed(done: bool) -> Callable[[], None]:
    """A commit with an unknown outcome is not resolved."""

    def plant() -> None:
        mock.patch.object(GroupCommit, "_resolve", return_value=done).start()
        mock.patch.object(
            Connection, "_which_holds", lambda self, tx, unsure: unsure[-1] if done and unsure else None
        ).start()

    return plant


def index_before_bytes() -> None:
    """The artifact's row is written while its bytes are only in memory."""
    mock.patch.object(directory, "sync_file", lambda file, fault: file.flush()).start()


def savepoint_failure_ignored() -> None:
    """It is not checked whether the failed move rolled back the whole transaction."""
    real = SQLiteEngine.rollback_to_savepoint

    def rollback(self: SQLiteEngine) -> None:
        with suppress(apsw.Error):
            real(self)

    mock.patch.object(SQLiteEngine, "in_transaction", return_value=True).start()
    mock.patch.object(SQLiteEngine, "rollback_to_savepoint", rollback).start()


def every_error_an_answer() -> None:
    """An error of the driver is taken for an answer of the server."""
    for module in ("connection", "errors", "history", "migrator", "pipeline"):
        name = f"perdure.store.databases.postgres.{module}.is_answer"
        mock.patch(name, lambda error: isinstance(error, psycopg.Error)).start()


PLANTS: dict[str, Callable[[], None]] = {
    "no sync": synchronous("OFF"),
    "normal sync": synchronous("NORMAL"),
    "answered before commit": answered_before_commit,
    "chain not advanced": chain_not_advanced,
    "guessed as done": guessed(True),
    "guessed as not done": guessed(False),
    "every error an answer": every_error_an_answer,
    "index before bytes": index_before_bytes,
    "savepoint failure ignored": savepoint_failure_ignored,
}


def plant(name: str | None) -> None:
    """Plant a bug in this process, for the rest of its work."""
    if name is not None:
        PLANTS[name]()
