"""A real PgBouncer in transaction mode in front of a test server, with few server connections that take turns."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self
from urllib.parse import quote

import psycopg

from perdure.testing.postgres import LAUNCH, PostgresServer
from perdure.testing.proxy import loopback_listener, wait_until
from tests.memory import MEMORY
from tests.packages import need

CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server} user=postgres password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
server_round_robin = 1
max_client_conn = 500
server_login_retry = 1
"""


class PgBouncer:
    """One pooler, running inside `with`. After `kill()`, `start()` resumes at the same port."""

    def __init__(self, server: PostgresServer) -> None:
        need("pgbouncer")
        self._server = server
        self.port = 0

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="perdure-test-", dir=MEMORY))
        with loopback_listener() as free:
            self.port = free.getsockname()[1]
        server = self._server
        text = CONFIGURATION.format(server=server.port, password=server.password, port=self.port)
        (path := self._folder / "pgbouncer.ini").write_text(text)
        for place in (self._folder, path):
            os.chown(place, server.uid, server.gid)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        program = shutil.which("pgbouncer") or ""
        who = map(str, (self._server.uid, self._server.gid, os.getpid(), int(signal.SIGKILL)))
        command = [sys.executable, "-I", "-S", "-c", LAUNCH, *who, program, str(self._folder / "pgbouncer.ini")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
        wait_until(self._answers, "PgBouncer answers")

    def _answers(self) -> bool:
        assert self._process.poll() is None, self.log_text()
        try:
            psycopg.connect(self._pooled("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def log_text(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def _pooled(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def url_of(self, database: str, *, direct: bool = True) -> str:
        """The address for Perdure; `database` is a name or the address of the server itself."""
        name = database.rpartition("/")[2]
        address = f"{self._pooled(name)}?perdure_pooler=transaction"
        return f"{address}&perdure_direct_url={quote(self._server.url_of(name), safe='')}" if direct else address
