"""Receivers of notifications: a web server and a mail server, with certificates of an authority of their own."""

from __future__ import annotations

import asyncio
import email
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage, Message
from email.policy import default
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

LOCAL = "127.0.0.1"


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


class WebReceiver:
    """A web server that keeps what is posted to it. `status` is its answer; while `held`, it does not answer."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.received: list[Received] = []
        self.status = 204
        self.held = threading.Event()
        self.held.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.received.append(Received(self.path, headers, body))
                outer.held.wait(60)
                self.send_response(outer.status)
                self.send_header("Location", f"http://{LOCAL}:1/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((LOCAL, 0), Handler)
        self._server.daemon_threads = True
        self.scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.scheme = "https"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{self.scheme}://{LOCAL}:{self.port}/hook?room=7"


@contextmanager
def web_receiver(certificate: Path | None = None) -> Iterator[WebReceiver]:
    made = WebReceiver(certificate)
    thread = threading.Thread(target=made._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.held.set()
        made._server.shutdown()
        made._server.server_close()


class MailReceiver:
    """A mail server that keeps what it takes, from a user `perdure` with the password `s3cr3t-password`."""

    def __init__(self, certificate: Path, *, implicit: bool = False) -> None:
        self.received: list[Message] = []
        self.refused: set[str] = set()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._implicit = context if implicit else None
        self._explicit = None if implicit else context
        self.port = 0

    def protocol(self) -> SMTP:
        return SMTP(
            self, hostname=LOCAL, tls_context=self._explicit, require_starttls=self._implicit is None,
            authenticator=self._authenticate, auth_required=self._implicit is None,
            auth_require_tls=self._implicit is None,
        )  # fmt: skip

    async def serve(self, started: threading.Event) -> None:
        self.stop, loop = asyncio.Event(), asyncio.get_running_loop()
        server = await loop.create_server(self.protocol, LOCAL, 0, ssl=self._implicit)
        self.end = partial(loop.call_soon_threadsafe, self.stop.set)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self.stop.wait()
        server.close()
        await server.wait_closed()

    def _authenticate(self, *given: Any) -> AuthResult:
        login = given[-1]
        right = LoginPassword(b"perdure", b"s3cr3t-password")
        return AuthResult(success=login == right, handled=False)

    async def handle_RCPT(  # noqa: N802 - the name of aiosmtpd
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if address in self.refused:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.received.append(email.message_from_bytes(envelope.content, EmailMessage, policy=default))
        return "250 OK"


@contextmanager
def mail_receiver(certificate: Path, *, implicit: bool = False) -> Iterator[MailReceiver]:
    made, started = MailReceiver(certificate, implicit=implicit), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(made.serve(started)), daemon=True)
    thread.start()
    assert started.wait(60)
    try:
        yield made
    finally:
        made.end()
        thread.join()


def make_certificate(folder: Path) -> Path:
    """A certificate for this machine that is its own authority, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOCAL))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "receiver.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path
