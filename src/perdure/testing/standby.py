"""A standby of a PostgreSQL test server: a copy that follows the primary and can be promoted.

    with PostgresServer() as primary, Standby(primary) as standby:
        database = primary.create_database()
        with open_store(standby.url_of_both(database)) as store:
            ...
            primary.kill()
            standby.promote()

The primary waits for the standby at every commit unless it was made with `synchronous=False`. `url_of_both` names both
servers, so that libpq finds the one that takes writes.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import psycopg

from perdure.errors import StoreUnavailable
from perdure.store.statements import load
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import wait_until

NAME = "standby"
BACKUP = ("--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync")


class Standby(PostgresServer):
    """A server that follows another one until it is promoted."""

    def __init__(self, primary: PostgresServer, home: str | Path | None = None, *, synchronous: bool = True) -> None:
        super().__init__(home)
        self.password = primary.password
        self._primary = primary
        self._synchronous = synchronous

    def _make_data(self) -> None:
        login = f"host=127.0.0.1 port={self._primary.port} user=postgres password={self.password}"
        source = f"--dbname={login} application_name={NAME}"
        if self._spawn("pg_basebackup", signal.SIGKILL, source, f"--pgdata={self.data}", *BACKUP).wait():
            raise StoreUnavailable(f"pg_basebackup failed:\n{self.log_text()}")

    def start(self) -> None:
        super().start()
        if self._synchronous:
            self.set_synchronous(True)

    def set_synchronous(self, enabled: bool) -> None:
        """Make the primary wait for this standby at every commit from now on, or no longer."""
        with psycopg.connect(self._primary.url, autocommit=True) as db:
            db.execute(f"alter system set synchronous_standby_names = '{NAME if enabled else ''}'")
            db.execute("select pg_reload_conf()")
            wanted = [(NAME, "sync" if enabled else "async")]
            standbys = load("postgres")["doctor.standbys"]
            wait_until(lambda: db.execute(standbys, {"limit": 2}).fetchall() == wanted, f"standbys are {wanted}")
            db.execute("checkpoint")  # done by the process that makes commits wait: by now it has read the setting

    def wait_until_caught_up(self) -> None:
        """Wait until it has replayed everything that the primary has written so far."""
        with psycopg.connect(self._primary.url) as primary, psycopg.connect(self.url, autocommit=True) as standby:
            (written,) = primary.execute("select pg_current_wal_flush_lsn()").fetchone() or ("",)
            replayed = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
            wait_until(
                lambda: standby.execute(replayed, [written]).fetchone() == (True,),
                "the standby has replayed everything",
            )

    def cut_off(self) -> None:
        """Receive nothing more from the primary. Only for an asynchronous standby: otherwise the primary would wait."""
        with psycopg.connect(self.url, autocommit=True) as db:
            db.execute("alter system set primary_conninfo = ''")
            db.execute("select pg_reload_conf()")
        with psycopg.connect(self._primary.url, autocommit=True) as db:
            standbys = load("postgres")["doctor.standbys"]
            wait_until(lambda: not db.execute(standbys, {"limit": 2}).fetchall(), "the standby is gone")

    def promote(self) -> None:
        """Make this the primary: it takes writes, on a timeline of its own."""
        with psycopg.connect(self.url, autocommit=True) as db:
            db.execute("select pg_promote()")

    @property
    def is_promoted(self) -> bool:
        return not (self.data / "standby.signal").exists()

    def url_of_both(self, url: str) -> str:
        """The address of a database on whichever of the two servers takes writes."""
        address = f"127.0.0.1:{self._primary.port}"
        return url.replace(address, f"{address},127.0.0.1:{self.port}")


class FailoverServers:
    """A primary, replaced after each promotion by its standby: a new pair costs half of what two new servers would."""

    def __init__(self, home: str | Path | None = None) -> None:
        self._home = home
        self.primary = PostgresServer(home)

    def __enter__(self) -> Self:
        self.primary.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.primary.__exit__()

    @contextmanager
    def pair(self, *, synchronous: bool = True) -> Iterator[tuple[PostgresServer, Standby]]:
        """The primary and a standby of it. If that is promoted, it is the primary of the next pair."""
        with ExitStack() as stack:
            standby = stack.enter_context(Standby(self.primary, self._home, synchronous=synchronous))
            yield self.primary, standby
            if standby.is_promoted:
                stack.pop_all()
                self.primary.__exit__()
                self.primary = standby
            elif synchronous:
                standby.set_synchronous(False)
