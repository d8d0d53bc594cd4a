"""A pipeline of statements to PostgreSQL: prepared once per connection, sent together, answered together.

    send        add a statement to the pipeline, without waiting for its answer
    ask         send everything, wait once, and read all answers up to one's own
    run_alone   run a statement that is a transaction by itself

This is psycopg's pipeline without psycopg's cursors: libpq is called directly, which takes a fifth of the time and
changes threads half as often. A statement that fails is reported with the next answer; the statements after it did not
run, and a statement counts as prepared only when the server has confirmed it.

Behind a pooler no statement is prepared, every transaction sets its own time limits, and a statement that runs alone is
sent with a BEGIN and a COMMIT around it, in the same round trip.

Every parameter is sent in binary with its type, text or integer, so that nothing is guessed or truncated.
"""

from __future__ import annotations

import re
import select
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import psycopg
from psycopg import errors
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult

from perdure.errors import ConfigError
from perdure.ids import digest
from perdure.store import migrate
from perdure.store.databases.postgres.connection_settings import PooledConnection, limits_of
from perdure.store.databases.postgres.errors import InStep, is_answer
from perdure.store.move import Row
from perdure.store.statements import load

UNKNOWN, BIGINT, TEXT, BINARY = 0, 20, 25, 1
READERS: dict[int, Callable[[bytes], Any]] = {
    16: lambda value: value == b"t", 20: int, 21: int, 23: int, 1700: int,  # numeric: a sum of integers
}  # fmt: skip
UNDERSTOOD = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
TEXTS = frozenset({TEXT, 19, 2278, 3220})  # name, void, position in the log
Key = tuple[str, tuple[int, ...]]

_PARAMETER = re.compile(r"%\((\w+)\)s")
_pack = struct.Struct(">q").pack


class StatementPipeline:
    """The statements of one connection."""

    def __init__(self, db: psycopg.Connection[Row], server: int) -> None:
        """`server` is the start time of the server: a pooler may replace it by another one."""
        self.db = db
        self.server = server
        self._pooled = isinstance(db, PooledConnection)
        self._limits = limits_of(db).encode()
        self._libpq = db.pgconn
        self._in_step = InStep(db)
        self._in_pipeline = False
        self._prepared: set[Key] = set()
        self._unread: list[Key | None] = []  # what was sent and is not answered: a key where it is only prepared
        self._socket = select.poll()
        self._socket.register(self._libpq.socket, select.POLLIN)

    def begin(self) -> None:
        """Begin a transaction. On another server than before, all its statements are refused."""
        self._begin()
        self.send("meta.same_server", {"server": self.server})

    def begin_read(self) -> None:
        """Begin to read one snapshot. Behind a pooler, which server answers is known only now."""
        self._control(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if self._pooled:
            self._control(self._limits)
            self.send("meta.same_server", {"server": self.server})

    def _begin(self) -> None:
        self._control(b"BEGIN ISOLATION LEVEL READ COMMITTED")
        if self._pooled:
            self._control(self._limits)

    def commit(self) -> bool:
        """Commit, unless the schema is too new for this code, and return whether a standby has it too."""
        self.send("meta.check_schema", {"known": migrate.known()})
        self.send("meta.durability", {})
        return is_synchronous(self._commit()[-2])

    def _commit(self) -> list[PGresult]:
        with self._in_step:
            self._control(b"COMMIT")
            answers = self._settle()
            if answers[-1].command_status == b"ROLLBACK":  # an earlier error was ignored
                raise errors.InFailedSqlTransaction("the transaction had failed and was rolled back")
            if answers[-1].command_status != b"COMMIT":
                raise out_of_step("the answer to COMMIT is missing")
            return answers

    def roll_back(self) -> None:
        try:
            self.settle()
        except psycopg.Error as error:
            if not is_answer(error):
                raise
        self._control(b"ROLLBACK")
        self.settle()

    def run_alone(self, name: str, values: Mapping[str, Any]) -> PGresult:
        """Run a statement as a transaction of its own."""
        if self._pooled:
            return self._run_pooled(name, values)
        key, bound = bind(name, values)
        prepared = _prepared_name(key)
        with self._in_step:
            if key not in self._prepared:
                self._check(self._libpq.prepare(prepared, numbered_statement(name)[0], key[1]))
                self._prepared.add(key)
            answer = self._libpq.exec_prepared(prepared, bound, [BINARY] * len(bound))  # type: ignore[arg-type]
            self._check(answer)
            return answer

    def _run_pooled(self, name: str, values: Mapping[str, Any]) -> PGresult:
        try:
            self._begin()
            self.send(name, values)
            return self._commit()[-2]
        except Exception:
            with suppress(psycopg.Error):
                self.roll_back()
            raise

    def send(self, name: str, values: Mapping[str, Any]) -> None:
        """Add a statement to the pipeline."""
        key, bound = bind(name, values)
        with self._in_step:
            self._enter()
            if self._pooled:
                self._libpq.send_query_params(numbered_statement(name)[0], bound, key[1], [BINARY] * len(bound))
                self._unread.append(None)
                return
            if key not in self._prepared and key not in self._unread:
                self._libpq.send_prepare(_prepared_name(key), numbered_statement(name)[0], key[1])
                self._unread.append(key)
            self._libpq.send_query_prepared(_prepared_name(key), bound, [BINARY] * len(bound))
            self._unread.append(None)

    def ask(self, name: str, values: Mapping[str, Any]) -> PGresult:
        """Add a statement to the pipeline, and wait for its answer and all before it."""
        self.send(name, values)
        answer = self.settle()
        assert answer is not None
        return answer

    def ask_all(self, queries: Sequence[tuple[str, Mapping[str, Any]]]) -> list[PGresult]:
        """The same for several statements: one answer for each."""
        for name, values in queries:
            self.send(name, values)
        sent = list(self._unread)
        answers = [answer for key, answer in zip(sent, self._settle(), strict=True) if key is None]
        return answers[-len(queries) :]

    def settle(self) -> PGresult | None:
        """Wait until everything that was sent is answered; return the last answer, or raise the first error."""
        answers = self._settle()
        return answers[-1] if answers else None

    def _settle(self) -> list[PGresult]:
        if not self._in_pipeline:
            return []
        with self._in_step:
            self._libpq.pipeline_sync()
            self._flush()
            answers = self._answers()
            if len(answers) != len(self._unread):
                raise out_of_step(f"{len(self._unread)} statements were answered {len(answers)} times")
            for key, answer in zip(self._unread, answers, strict=True):
                if key is not None and answer.status == ExecStatus.COMMAND_OK:
                    self._prepared.add(key)
            self._unread.clear()
            self._libpq.exit_pipeline_mode()
            self._in_pipeline = False
            for answer in answers:
                self._check(answer)
            return answers

    def _check(self, answer: PGresult | None) -> None:
        """Raise the error of an answer, or of a lost connection."""
        if self._libpq.status == ConnStatus.BAD:
            raise psycopg.OperationalError(self._libpq.get_error_message())
        if answer is None or answer.status in UNDERSTOOD:
            return
        if answer.status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(answer)
        raise out_of_step(f"the status of an answer is {answer.status}")

    def _control(self, statement: bytes) -> None:
        with self._in_step:
            self._enter()
            self._libpq.send_query_params(statement, None)
            self._unread.append(None)

    def _enter(self) -> None:
        if not self._in_pipeline:
            self._libpq.enter_pipeline_mode()
            self._in_pipeline = True

    def _flush(self) -> None:
        while self._libpq.flush():
            self._socket.modify(self._libpq.socket, select.POLLIN | select.POLLOUT)
            self._socket.poll()
            self._socket.modify(self._libpq.socket, select.POLLIN)
            self._libpq.consume_input()

    def _answers(self) -> list[PGresult]:
        """All answers up to the end of the pipeline. Only the end confirms that a single statement is committed."""
        answers: list[PGresult] = []
        while True:
            while self._libpq.is_busy():
                self._socket.poll()
                self._libpq.consume_input()
            answer = self._libpq.get_result()
            if answer is None:  # between the answers to two statements, or the end of them all
                self._check(answer)
            elif answer.status == ExecStatus.PIPELINE_SYNC:
                return answers
            else:
                answers.append(answer)


@cache
def numbered_statement(name: str) -> tuple[bytes, tuple[str, ...]]:
    """A statement in the form of libpq, `$1` for its first parameter, and the names of the parameters in order."""
    sql = load("postgres")[name]
    names = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    return _PARAMETER.sub(lambda match: f"${names.index(match[1]) + 1}", sql).replace("%%", "%").encode(), names


def bind(name: str, values: Mapping[str, Any]) -> tuple[Key, list[bytes | None]]:
    """The statement's name with the types of these values, and the values as they travel."""
    types: list[int] = []
    bound: list[bytes | None] = []
    for parameter in numbered_statement(name)[1]:
        value = values[parameter]
        if value is None:
            types.append(UNKNOWN)
            bound.append(None)
        elif isinstance(value, str):
            types.append(TEXT)
            bound.append(value.encode())
        else:
            types.append(BIGINT)
            bound.append(_binary(value))
    return (name, tuple(types)), bound


@cache
def _prepared_name(key: Key) -> bytes:
    """The name of a prepared statement: the server uses only the first 63 characters."""
    return f"{key[0]} {digest(repr(key[1]))[:16]}".encode()


def rows_of(answer: PGresult) -> list[Row]:
    """The rows of an answer: text, integers, booleans, and None."""
    readers = [READERS.get(answer.ftype(column), bytes.decode) for column in range(answer.nfields)]
    return [
        tuple([_read(answer.get_value(row, column), reader) for column, reader in enumerate(readers)])
        for row in range(answer.ntuples)
    ]


def is_synchronous(answer: PGresult) -> bool:
    """Whether a commit waits until a standby has it on disk, by an answer that contains `{durability}`."""
    return answer.ntuples > 0 and waits_for_standby((answer.get_value(0, 0) or b"").decode())


def waits_for_standby(durability: str) -> bool:
    level, _, standbys = durability.partition(" ")
    return level in ("on", "remote_apply") and bool(standbys.strip())


def _read(value: bytes | None, reader: Callable[[bytes], Any]) -> Any:
    return None if value is None else reader(value)


def _binary(value: int) -> bytes:
    try:
        return _pack(value)
    except struct.error:
        raise ConfigError(f"The database cannot hold this: {value} does not fit into 64 bits.") from None


def out_of_step(what: str) -> psycopg.OperationalError:
    """The answers do not belong to the statements any more: an error that proves nothing, like a lost connection."""
    return psycopg.OperationalError(f"the connection is out of step: {what}")
