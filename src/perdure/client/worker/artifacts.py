"""The artifacts of a worker without access to the store's folder: a folder of its own, and the service behind it.

    put    written here, then sent to the service; only then may a move name the digest
    get    from here, or from the service, which has every artifact that a move has named

The digest is checked on both sides, so a copy that was cut off is never used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from perdure.artifacts.directory import Directory
from perdure.client.connection import ServiceCall
from perdure.client.worker.transport import WorkerTransport
from perdure.errors import Damaged, NotFound

BINARY = "application/octet-stream"
UPLOADED_AGAIN = 6 * 3600.0  # seconds; the service forgets after a day who has uploaded what


class ServiceArtifacts(Directory):
    """A folder of artifacts that are kept by a service."""

    def __init__(self, folder: Path, transport: WorkerTransport) -> None:
        super().__init__(folder)
        self._transport = transport
        self._sent: dict[str, float] = {}  # until when the service knows that this worker has the bytes

    def put(self, content: bytes | Iterable[bytes]) -> tuple[str, int]:
        name, size = super().put(content)
        if (now := self._transport.loop.time()) >= self._sent.get(name, now):
            call = ServiceCall("POST", "/v1/work/artifacts", {}, super().get(name), BINARY)
            self._transport.wait(self._transport.ask(call, self._transport.connection.patience))
            self._sent[name] = now + UPLOADED_AGAIN
        return name, size

    def get(self, name: str) -> bytes:
        self._fetch(name)
        return super().get(name)

    def open(self, name: str) -> Iterator[bytes]:
        self._fetch(name)
        return super().open(name)

    def size(self, name: str) -> int:
        self._fetch(name)
        return super().size(name)

    def _fetch(self, name: str) -> None:
        try:
            if super().has(name):
                super().get(name)
                return
        except Damaged:
            super().remove(name)
        call = ServiceCall("GET", f"/v1/work/artifacts/{name}", {})
        answer = self._transport.wait(self._transport.ask(call, self._transport.connection.patience))
        if super().put(answer.content)[0] != name:
            raise NotFound(f"The service has no artifact {name[:12]}.")
