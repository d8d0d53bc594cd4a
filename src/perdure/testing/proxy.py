"""A proxy in front of PostgreSQL that loses a connection at a chosen statement.

Owns the sockets between a client and the server, and just enough of the wire protocol to find a statement on its way:
simple queries, and executions of prepared ones, alone or many in one packet. It never changes a byte that it forwards
and never sends requests of its own; it only withholds, cuts, or forwards late.

    cut_before_commit   the statement never reaches the server; the connection is cut
    cut_after_commit    the server has executed it and has answered; the answer is lost with the connection
    cut_reply_race      forwarded, and the client is cut at the same time: it may check before the statement has landed
    cut_late_commit     the client is cut first; the statement reaches the server only when `heal()` is called
    stall               from now on nothing is forwarded in either direction and nothing is closed: a partition
    refuse              every connection is cut and new ones are refused

"Done" is ReadyForQuery and not CommandComplete: outside a transaction block an extended statement is committed when
its Sync is read, after CommandComplete. What is executed before one Sync is one transaction, so the cut falls there.
"""

import contextlib
import re
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal, Self, get_args
from urllib.parse import urlsplit

from perdure.errors import ConfigError

ProxyMode = Literal["cut_before_commit", "cut_after_commit", "cut_reply_race", "cut_late_commit", "stall", "refuse"]
ENCRYPTION = (80877103, 80877104)  # the requests for TLS and for GSSAPI
ENDS = (b"Q", b"S", b"F")  # Query, Sync, FunctionCall: each ends a transaction or a part of one, with a ReadyForQuery
LOST = b"lost"


def wait_until(condition: Callable[[], bool], what: str, patience: float = 180.0) -> None:
    """Return as soon as the condition holds; `what` completes the sentence "waited until ..."."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience:g} s until {what}")
        time.sleep(0.003)


def loopback_listener() -> socket.socket:
    """Listen on a free loopback port below the range that the kernel hands out to clients.

    A port of that range may be taken by a client while its server is down for a test: even by the server's own client,
    because one that connects again and again is in the end given the very port it connects to, and reaches itself.
    """
    while True:
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", 12000 + secrets.randbelow(20000)), backlog=128)


def _hang_up(end: socket.socket) -> None:
    """Shut down, which unlike close wakes the thread that reads; a listener keeps its port and refuses."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Between clients and the server of a URL, inside `with`. Transparent until armed, and again after it fired."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.target = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self.fired = threading.Event()
        self.flowing = threading.Event()
        self.healed = threading.Event()
        self._url = url
        self._guard = threading.RLock()
        self._armed: tuple[ProxyMode, re.Pattern[bytes], int] | None = None
        self._connections: set[_Connection] = set()

    def __enter__(self) -> Self:
        self._listener = loopback_listener()
        self.port: int = self._listener.getsockname()[1]
        self._listening = False
        self._acceptor = threading.Thread()
        self.heal()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_listening()
        self._cut_all()
        self.flowing.set()
        self.healed.set()
        self._acceptor.join()
        for connection in tuple(self._connections):
            connection.join()
        self._listener.close()

    @property
    def url(self) -> str:
        """The URL that was given, through this proxy."""
        return self.through(self._url)

    def through(self, url: str) -> str:
        """The URL of any database of the same server, through this proxy."""
        parts = urlsplit(url)
        login, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{login}{at}127.0.0.1:{self.port}").geturl()

    def arm(self, mode: ProxyMode, match: bytes | None = None, nth: int = 1) -> None:
        """Fire once, at the nth statement from now, of any connection, that contains the words `match`.

        Case and white space do not count, and words match whole: COMMIT is not found in `committed_at`. Without
        `match` a cut waits for COMMIT, while `stall` and `refuse` begin at once. `fired` is set when it has fired.
        """
        if mode not in get_args(ProxyMode) or nth < 1:
            raise ConfigError(
                f"cannot arm {mode!r} for match number {nth}; the modes are {', '.join(get_args(ProxyMode))}"
            )
        words = rb"\s+".join(map(re.escape, (match or b"COMMIT").split()))
        with self._guard:
            self.fired.clear()
            self.healed.clear()
            self._armed = (mode, re.compile(rb"(?<!\w)" + words + rb"(?!\w)", re.IGNORECASE), nth)
            if match is None and mode in ("stall", "refuse"):
                self._fire(mode)

    def heal(self) -> None:
        """Disarm, forward everything and accept new connections. What was cut stays cut."""
        with self._guard:
            self._armed = None
            self.flowing.set()
            self.healed.set()
            listening, self._listening = self._listening, True
        if not listening:
            if self._acceptor.ident:
                self._acceptor.join()
            self._listener.listen(128)
            self._acceptor = threading.Thread(target=self._accept, name="proxy-acceptor", daemon=True)
            self._acceptor.start()

    def fault_at(self, statement: bytes) -> ProxyMode | None:
        """The fault to apply to this statement, if it is the one."""
        with self._guard:
            if not statement or not self._armed or not self._armed[1].search(statement):
                return None
            mode, pattern, left = self._armed
            if left > 1:
                self._armed = (mode, pattern, left - 1)
                return None
            self._fire(mode)
            return None if mode == "stall" else mode  # a stall needs nothing more: nothing is forwarded

    def forget(self, connection: "_Connection") -> None:
        with self._guard:
            self._connections.discard(connection)

    def _fire(self, mode: ProxyMode) -> None:
        """Connections are cut last: a client that notices finds the fault in force and `fired` set."""
        self._armed = None
        if mode == "stall":
            self.flowing.clear()
        if mode == "refuse":
            self._stop_listening()
        self.fired.set()
        if mode == "refuse":
            self._cut_all()

    def _stop_listening(self) -> None:
        self._listening = False
        _hang_up(self._listener)

    def _cut_all(self) -> None:
        with self._guard:
            for connection in self._connections:
                connection.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._guard:
                    connection = _Connection(self, client)
                    self._connections.add(connection)
                    if not self._listening:  # refused between the two lines above
                        connection.cut()
                connection.start()


class _Connection(threading.Thread):
    """One connection: this thread carries requests, a second one carries answers."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        super().__init__(name="proxy-requests", daemon=True)
        self.proxy = proxy
        self.client = client
        self.server = socket.socket()
        self.answers = threading.Thread(target=self._answers, name="proxy-answers", daemon=True)
        # ReadyForQuery messages that are still to come, by the request they answer. The first ends the log-in.
        self.owed = deque([b"Q"])
        self.statements: dict[bytes, bytes] = {}
        self.portals: dict[bytes, bytes] = {}

    def cut(self) -> None:
        _hang_up(self.client)
        _hang_up(self.server)

    def run(self) -> None:
        with self.client, self.server, contextlib.suppress(OSError):
            for end in (self.client, self.server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.server.connect(self.proxy.target)
            self.answers.start()
            try:
                self._forward(self.server, self._log_in())
                self._requests()
            finally:
                self.cut()
                self.answers.join()
        self.proxy.forget(self)

    def _log_in(self) -> bytearray:
        """The first message, the only one without a type. Encryption is declined, or the rest could not be read."""
        while True:
            head = self.client.recv(8, socket.MSG_WAITALL)
            if len(head) < 8:
                raise ConnectionError("the client has disconnected")
            if int.from_bytes(head[4:]) not in ENCRYPTION:
                return bytearray(head) + self.client.recv(int.from_bytes(head[:4]) - 8, socket.MSG_WAITALL)
            self._forward(self.client, bytearray(b"N"))

    def _forward(self, end: socket.socket, data: bytearray) -> None:
        """Send the data, and empty the buffer, as soon as nothing stalls."""
        self.proxy.flowing.wait()
        end.sendall(data)
        data.clear()

    def _read(self, end: socket.socket) -> Iterator[list[bytes]]:
        """Whole messages (type, length, body), as many as have arrived."""
        buffer = bytearray()
        while data := end.recv(65536):
            buffer += data
            batch = []
            while len(buffer) >= 5 and len(buffer) > (size := int.from_bytes(buffer[1:5])):
                batch.append(bytes(buffer[: size + 1]))
                del buffer[: size + 1]
            yield batch

    def _statement(self, message: bytes) -> bytes:
        """The statement that this message makes the server execute; remembers those that it only names."""
        kind, fields = message[:1], message[5:].split(b"\0", 2)
        if kind == b"P":
            self.statements[fields[0]] = fields[1]
        elif kind == b"B":
            self.portals[fields[0]] = self.statements.get(fields[1], b"")
        return fields[0] if kind == b"Q" else self.portals.get(fields[0], b"") if kind == b"E" else b""

    def _requests(self) -> None:
        struck: ProxyMode | None = None
        ready = bytearray()
        for batch in self._read(self.client):
            for message in batch:
                kind = message[:1]
                if not struck and (struck := self.proxy.fault_at(self._statement(message))):
                    self._forward(self.server, ready)
                if struck in ("cut_before_commit", "refuse"):
                    return
                ready += message
                if struck and kind in ENDS:
                    self._land(struck, ready)
                    return
                if kind in ENDS:
                    self.owed.append(kind)
                elif struck and kind == b"H":  # Flush: the client wants answers before it sends the Sync
                    self._forward(self.server, ready)
            if not struck:
                self._forward(self.server, ready)

    def _land(self, mode: ProxyMode, last: bytearray) -> None:
        """Forward the statement to the server, and nothing of its answer to the client."""
        self.owed.append(LOST)
        if mode == "cut_late_commit":
            _hang_up(self.client)
            self.proxy.healed.wait()
        self._forward(self.server, last)
        if mode == "cut_reply_race":
            _hang_up(self.client)
        self.answers.join()

    def _answers(self) -> None:
        ready, over = bytearray(), False
        with contextlib.suppress(OSError):
            for batch in self._read(self.server):
                for message in batch:
                    request = self.owed[0] if self.owed else b""
                    if request is not LOST:
                        ready += message
                    if message[:1] == b"Z":
                        over = self.owed.popleft() is LOST
                with contextlib.suppress(OSError):  # the client is gone; the other thread acts on that
                    self._forward(self.client, ready)
                if over:
                    break
        self.cut()
