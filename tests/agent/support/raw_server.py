"""A server that answers with given bytes, for responses that no correct server sends."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

Said = bytes | Callable[[socket.socket], None]


class RawServer:
    """Answers each connection with `says`, and keeps every request: its head, its body."""

    def __init__(self) -> None:
        self.says: Said = STREAM
        self.heads: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.hung_up = threading.Event()  # the client went before everything was said
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(120)

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            with line:
                line.settimeout(20)
                self._answer(line)

    def _answer(self, line: socket.socket) -> None:
        try:
            head, _, body = _until(line, b"\r\n\r\n")
            length = next(int(row.split(":")[1]) for row in head.lower().split("\r\n") if row.startswith("content-len"))
            while len(body) < length:
                body += line.recv(65536)
            self.heads.append(head)
            self.bodies.append(json.loads(body))
            if callable(self.says):
                self.says(line)
            else:
                line.sendall(self.says)
        except (ConnectionError, TimeoutError):
            self.hung_up.set()


def _until(line: socket.socket, mark: bytes) -> tuple[str, bytes, bytes]:
    got = b""
    while mark not in got:
        if not (piece := line.recv(65536)):
            raise ConnectionError("no request")
        got += piece
    head, _, rest = got.partition(mark)
    return head.decode("latin-1"), mark, rest


def refusal(status: int, *headers: str, body: dict[str, Any] | None = None) -> bytes:
    said = json.dumps(body or {"error": {"type": "error", "message": "No."}}).encode()
    rows = [f"HTTP/1.1 {status} No", "Content-Type: application/json", f"Content-Length: {len(said)}", *headers]
    return "\r\n".join([*rows, "Connection: close", "", ""]).encode() + said


def events(format: str, said: Iterable[dict[str, Any]]) -> bytes:
    """Events as one provider frames them."""
    named = format == "anthropic"
    return b"".join(
        (f"event: {event['type']}\n" if named else "").encode() + b"data: " + json.dumps(event).encode() + b"\n\n"
        for event in said
    )


def speech(format: str, *pieces: str, end: bool = True) -> list[dict[str, Any]]:
    """The events of an answer that only says something."""
    if format == "openai":
        chunks = [{"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
        return [*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}] if end else chunks
    usage = {"input_tokens": 3, "output_tokens": 1}
    opening = [
        {"type": "message_start", "message": {"model": "claude-x", "content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}} for piece in pieces
    ]
    closing: list[dict[str, Any]] = [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
    return [*opening, *deltas, *(closing if end else ())]


def calling(format: str, *arguments: str, id: str = "t1", finish: bool = True, reason: str = "calls") -> bytes:
    """The events of an answer that calls `look` once for each text of arguments."""
    if format == "openai":
        said: list[dict[str, Any]] = [
            {"index": index, "id": id, "type": "function", "function": {"name": "look", "arguments": text}}
            for index, text in enumerate(arguments)
        ]
        ended = {"calls": "tool_calls", "length": "length", "refused": "content_filter"}[reason]
        return events(
            format,
            [
                {"choices": [{"index": 0, "delta": {"tool_calls": said}, "finish_reason": None}]},
                {"choices": [{"index": 0, "delta": {}, "finish_reason": ended if finish else None}]},
            ],
        )
    blocks: list[dict[str, Any]] = []
    for index, text in enumerate(arguments):
        tool = {"type": "tool_use", "id": id, "name": "look", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": text}
        blocks.append({"type": "content_block_start", "index": index, "content_block": tool})
        blocks.append({"type": "content_block_delta", "index": index, "delta": delta})
    ended = {"calls": "tool_use", "length": "max_tokens", "refused": "refusal"}[reason]
    closing: list[dict[str, Any]] = [
        {"type": "message_delta", "delta": {"stop_reason": ended}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
    return events(format, [speech(format, end=False)[0], *blocks, *(closing if finish else ())])
