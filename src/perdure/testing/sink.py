"""A sink: an outside service that stores what it receives, in a process of its own with a log of its own.

    with Sink() as sink:
        sink.post("key-1", {"pr": 7})         as a tool does; any HTTP client may do it, on any path below sink.url
        sink.find(key="key-1")                as a probe does
        sink.delete(key="key-1")              as an undo does
        sink.mode(fault="cut")                from now on it stores each body and then cuts the connection
        sink.log(), sink.lasting()            what really happened, from the sink's own synced file

Tests of effects compare with it: a program reports what it believes it did, the sink shows what it did.
"""

from __future__ import annotations

import http.client
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from perdure.errors import ConfigError
from perdure.testing.sink_process import content_id, read_log

__all__ = ["Sink", "SinkClient", "SinkError", "SinkRefused", "content_id", "lasting"]

WHERE = "PERDURE_SINK"


class SinkError(Exception):
    """The sink answered with an error, which proves nothing: it may have stored the body all the same."""


class SinkRefused(Exception):
    """The sink refused the request, which proves that it stored nothing."""


class SinkClient:
    """A client of one run of a sink, for tools, probes and undos: plain blocking functions."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        self._host, self._port, self._root = parts.hostname or "127.0.0.1", parts.port or 80, parts.path

    @classmethod
    def here(cls) -> SinkClient:
        """The sink of the trial that this process is part of."""
        if WHERE not in os.environ:
            raise ConfigError(f"{WHERE} is not set: this process is not part of a sweep.")
        return SinkClient(os.environ[WHERE])

    def post(self, key: str | None, body: Any, *, marker: str | None = None, path: str = "effects") -> Any:
        """Store a body. With a key it is stored once, if the sink honours keys; a marker only makes it findable."""
        headers = {"Idempotency-Key": key, "X-Marker": marker}
        return self._ask("POST", path, body, {name: value for name, value in headers.items() if value is not None})

    def find(self, *, key: str | None = None, path: str = "effects") -> list[Any]:
        """What is stored, or what is stored under a key or marker."""
        found = self._ask("GET", path if key is None else f"{path}?{urlencode({'key': key})}")
        return found if isinstance(found, list) else [found]

    def delete(self, *, key: str | None = None, id: str | None = None, path: str = "effects") -> int:
        """Remove something by its key or its id; returns how many there were."""
        where = path if id is None else f"{path}/{quote(id)}"
        deleted: int = self._ask("DELETE", where if key is None else f"{where}?{urlencode({'key': key})}")["deleted"]
        return deleted

    def note(self, **words: Any) -> None:
        """Write a line into the sink's log, in order with everything else."""
        self._ask("POST", "-/note", words)

    def mode(
        self, *, fault: str = "none", keys: bool = True, delay: float | None = 0.05, times: int = 1, only: Any = None
    ) -> None:
        """Set how requests fail: `slow`, `refuse`, `error` (500 after the commit), `cut` (after the commit), `late`
        (stored after `delay` seconds or at `release`, while the client waits), `late_cut` (the same, client cut off).
        `kill_before`, `kill_after`, `kill_replied` and `kill_late` kill the client, the process that `X-Process` names:
        before the commit, after it, `delay` seconds after the reply, and before a commit that happens later.

        Each distinct body fails the first `times` times; with `only`, no other body. With `keys=False` idempotency
        keys are ignored.
        """
        self._ask("POST", "-/mode", {"fault": fault, "keys": keys, "delay": delay, "times": times, "only": only})

    def release(self) -> None:
        """Store everything that was held back."""
        self._ask("POST", "-/release")

    def counts(self) -> dict[str, int]:
        """The number of lines of each kind, counted by the sink from its file."""
        counted: dict[str, int] = self._ask("GET", "-/counts")
        return counted

    def kept(self) -> list[Any]:
        """What is stored now, on any path: id, key and body of each."""
        found: list[Any] = self._ask("GET", "-/kept")
        return found

    def forget(self) -> None:
        """Remove this run, its log too."""
        self._ask("DELETE", "")

    def _ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=30)
        try:
            sent = b"" if body is None else msgspec.json.encode(body)
            given = {"X-Process": str(os.getpid()), "Content-Type": "application/json"} | (headers or {})
            connection.request(method, f"{self._root}/{path}", sent, given)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status == 409:
            raise SinkRefused(f"refused: {content.decode()}")
        if answer.status >= 400:
            raise SinkError(f"{answer.status} {content.decode()}")
        return msgspec.json.decode(content)


class Sink(SinkClient):
    """The sink's process, running inside `with`; itself a client of its run `main`."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self._given = folder

    def __enter__(self) -> Self:
        self.folder = Path(self._given or tempfile.mkdtemp(prefix="perdure-sink-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-P", "-m", "perdure.testing.sink_process", str(self.folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip()
        if not port:
            raise ConfigError("The sink did not start.")
        self._base = f"http://127.0.0.1:{int(port)}"
        super().__init__(f"{self._base}/main")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        if self._given is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, name: str | None = None) -> SinkClient:
        """A namespace of its own, for one trial."""
        return SinkClient(f"{self._base}/{name or secrets.token_hex(6)}")

    def log(self, run: str = "main") -> list[dict[str, Any]]:
        """Everything that happened in a run, in order, from the sink's file."""
        return read_log(self.folder / f"{run}.jsonl")

    def lasting(self, run: str = "main") -> Counter[str]:
        """What was stored and not removed: each body, as JSON with its path, and how often it is there."""
        return lasting(self.log(run))


def lasting(log: list[dict[str, Any]]) -> Counter[str]:
    """What a log leaves outside in the end, by content."""
    left: Counter[str] = Counter()
    names: dict[str, str] = {}
    for line in log:
        if line["what"] == "kept":
            names[line["id"]] = f"{line['path']} {msgspec.json.encode(line['body'], order='sorted').decode()}"
            left[names[line["id"]]] += 1
        elif line["what"] == "deleted":
            left.subtract(names[id] for id in line["ids"])
    return +left
