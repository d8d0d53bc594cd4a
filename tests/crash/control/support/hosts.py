"""Separate hosts on one machine, and the links between them and the services that they use."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import pytest

PROCESS = Path(__file__).with_name("host_process.py")
APP = Path(__file__).with_name("app.py")
NAMESPACES = ("--net", "--uts", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child")


def skip_without_namespaces() -> None:
    """Skip the test where this user may not create namespaces with mounts and a network of their own."""
    tried = subprocess.run(
        ["unshare", *NAMESPACES, "sh", "-c", "ip link set lo up && mount --bind /etc/hostname /etc/hostname"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if tried.returncode != 0:
        pytest.skip(f"no namespaces here: {tried.stderr.strip()}")


class Link:
    """Forwards the connections of a listener to an address. While it is cut, it keeps what was sent."""

    def __init__(self, listener: socket.socket, address: tuple[str, int]) -> None:
        self._listener, self._address = listener, address
        self._open = threading.Event()
        self._open.set()
        self._ends: list[socket.socket] = [listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._open.clear()

    def heal(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._open.set()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                host = self._listener.accept()[0]
                self._open.wait()
                with suppress(OSError):
                    service = socket.create_connection(self._address)
                    self._ends += [host, service]
                    for pair in ((host, service), (service, host)):
                        threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                self._open.wait()
                target.sendall(content)
            target.shutdown(socket.SHUT_WR)


class Host:
    """A worker on a host of its own, inside `with`."""

    def __init__(self, name: str, folder: Path, store: str, sink: str, *, lease: float) -> None:
        self.name = name
        self._folder = folder / name
        self._store, self._sink, self._lease = urlsplit(store), urlsplit(sink), lease
        self.links: list[Link] = []

    def __enter__(self) -> Self:
        self._folder.mkdir()
        for file in ("machine-id", "boot-id"):
            (self._folder / file).write_text(f"{secrets.token_hex(16)}\n")
        path = self._folder / "test.sock"
        user = f"{self._store.username}:{self._store.password}"
        address = urlunsplit(self._store._replace(netloc=f"{user}@127.0.0.1:STORE_PORT"))
        sink = urlunsplit(self._sink._replace(netloc="127.0.0.1:SINK_PORT"))
        worker = ("-m", "perdure", "worker", "--app", str(APP), "--store", address, "--concurrency", "3", "--json")
        environment = os.environ | {
            "PERDURE_SINK": sink, "PERDURE_LEASE": f"{self._lease}s", "PERDURE_IGNORE_FOLDER": "1",
            "XDG_RUNTIME_DIR": str(self._folder), "XDG_DATA_HOME": str(self._folder), "HOME": str(self._folder),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")])),
        }  # fmt: skip
        with socket.socket(socket.AF_UNIX) as meeting, (self._folder / "worker.log").open("wb") as log:
            meeting.bind(str(path))
            meeting.listen()
            meeting.settimeout(60)
            self.process = subprocess.Popen(
                ["unshare", *NAMESPACES, sys.executable, str(PROCESS), self.name, str(path),
                 str(self._folder / "machine-id"), str(self._folder / "boot-id"), sys.executable, *worker],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
            given, _ = meeting.accept()
            with given:
                _, descriptors, _, _ = socket.recv_fds(given, 16, 2)
                given.sendall(b"1")
        addresses = [(one.hostname or "127.0.0.1", one.port or 0) for one in (self._store, self._sink)]
        listeners = [socket.socket(fileno=one) for one in descriptors]
        self.links = [Link(listener, address) for listener, address in zip(listeners, addresses, strict=True)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        for link in self.links:
            link.close()

    def cut(self) -> None:
        """Cut the host off from the store and from the sink."""
        for link in self.links:
            link.cut()

    def heal(self) -> None:
        """Connect it again; what it sent meanwhile arrives now."""
        for link in self.links:
            link.heal()

    def log_text(self) -> str:
        return (self._folder / "worker.log").read_text(errors="replace")
