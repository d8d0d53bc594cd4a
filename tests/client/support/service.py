"""A service in this process, on a socket of its own, and a client of it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from perdure.runtime.runtime import Runtime
from perdure.server.application import make_application
from perdure.server.protocol import ServiceProtocol


class _Server(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        pass


@asynccontextmanager
async def service(runtime: Runtime, path: str | None = None, tls: tuple[str, str] | None = None) -> AsyncIterator[str]:
    """Serve a runtime on loopback, or on a Unix socket; the address that clients use."""
    if path is None:
        listener = socket.create_server(("127.0.0.1", 0))
        address = f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        address = f"unix:{path}"
    app = make_application(runtime)
    secure: dict[str, Any] = {"ssl_certfile": tls[0], "ssl_keyfile": tls[1]} if tls else {}
    config = uvicorn.Config(
        app, http=ServiceProtocol, ws="none", lifespan="off", log_config=None, access_log=False,
        timeout_graceful_shutdown=60, **secure,
    )  # fmt: skip
    server = _Server(config)
    running = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        yield address
    finally:
        app.state.stopping.set()
        server.should_exit = True
        await running


def self_signed(folder: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "perdure")])
    there = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, datetime(2020, 1, 1), datetime(2100, 1, 1))  # noqa: DTZ001
        .add_extension(there, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return str(paths[0]), str(paths[1])
