"""The process `http` of a service for the benchmarks, and what it takes of the machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.worker_processes import APP
from perdure.console.login import cookies
from perdure.domain.principal import Role
from perdure.runtime.runtime import Runtime
from perdure.server.http_process import HttpPlan
from perdure.server.settings import ServerSettings
from perdure.store.moves import sign_in

SETTINGS = ServerSettings(requests_per_minute=1_000_000_000)  # otherwise the limit of a caller is measured


class HttpService(NamedTuple):
    """Where it answers, to whom, and its process."""

    host: str
    port: int
    token: str
    cookie: str
    process: subprocess.Popen[bytes]

    @property
    def processor(self) -> float:
        """Seconds of processor time that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def resident(self) -> int:
        """Bytes of memory that the process has."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0


LIMITED = 'ulimit -n "$0" && exec "$@"'


@contextmanager
def http_service(
    runtime: Runtime, token: str, cookie: str, *, files: int | None = None, log: Path | None = None
) -> Iterator[HttpService]:
    """The same process as below `perdure serve`, without workers. It may have so many files open, if given."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        plan = HttpPlan(SETTINGS, (listener.fileno(),), None)
        command = [
            sys.executable, "-m", "perdure", "service", "http", "--plan", msgspec.json.encode(plan).decode(),
            "--store", runtime.store.target, "--app", str(APP),
        ]  # fmt: skip
        if files is not None:
            command = ["sh", "-c", LIMITED, str(files), *command]
        environment = os.environ | {"PERDURE_IGNORE_FOLDER": "1", "PERDURE_LOG": "error"}
        with nullcontext() if log is None else open(log, "wb") as errors:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                pass_fds=(listener.fileno(),),
            )  # fmt: skip
        try:
            host, port = listener.getsockname()
            yield HttpService(host, port, token, cookie, process)
        finally:
            process.terminate()
            process.wait()


async def credentials(runtime: Runtime) -> tuple[str, str]:
    """A token of an owner, and the cookie of a browser in which the owner has signed in."""
    await runtime.add_principal("bench", roles=[Role.OWNER])
    made = await runtime.create_token("bench", scopes=["*"])
    secret = cookies.new()
    await runtime.store.write(sign_in.begin(cookies.stored(secret), f"token:{made.view.id}"))
    return made.token, f"{cookies.PLAIN}={secret}"
