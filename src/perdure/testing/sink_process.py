"""The process of the sink: a small HTTP service that stores what is posted to it, and fails on request.

    POST   /RUN/any/path              store the JSON body; 201 with {"id": ...}. An `Idempotency-Key` seen before: 200.
                                      An `X-Marker` does not deduplicate; it only makes the body findable
    GET    /RUN/any/path[?key=K]      what is stored there, or what is stored there under a key or marker
    DELETE /RUN/any/path[/ID][?key=K] remove it; removing nothing is no error
    POST   /RUN/-/mode                {"fault": ..., "keys": ..., "delay": ..., "times": ...}
    POST   /RUN/-/release             store now what was held back
    POST   /RUN/-/note                add a line to the log
    GET    /RUN/-/kept                what is stored now, on any path
    GET    /RUN/-/log, /RUN/-/counts  what happened, read from the file

A run is a namespace with a log of its own, one JSON line for everything that happened. A line about something stored or
removed is synced before the client is answered, so that a judge can rely on the file alone.

The process ends with its parent: its standard input is closed when the parent dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from perdure.testing.sink_http import SinkRequest, read_request, write_response

FAULTS = ("none", "slow", "refuse", "error", "cut", "late", "late_cut")
KILLS = ("kill_before", "kill_after", "kill_replied", "kill_late")


class FaultMode(msgspec.Struct):
    """How requests of a run fail. Each distinct body fails the first `times` times; no delay: until released.

    With `only`, no other body fails.
    """

    fault: str = "none"
    keys: bool = True
    delay: float | None = 0.05
    times: int = 1
    only: Any = None


class SinkRecord(msgspec.Struct):
    """A body that was posted and stored. Its key deduplicates; its marker only makes it findable."""

    id: str
    path: str
    key: str | None
    marker: str | None
    body: Any
    gone: bool = False

    def shown(self) -> dict[str, Any]:
        return {"id": self.id, "key": self.key or self.marker, "body": self.body}


Answer = tuple[int, Any]


class SinkRun:
    """One namespace: what is stored, and its log."""

    def __init__(self, path: Path) -> None:
        self.log = path
        self.mode = FaultMode()
        self.kept: list[SinkRecord] = []
        self.held: list[asyncio.Event] = []
        self.landings: set[asyncio.Future[Answer]] = set()
        self._met: dict[str, int] = {}
        self._number = 0

    def write(self, what: str, *, synced: bool = False, **more: Any) -> None:
        self._number += 1
        line = msgspec.json.encode({"n": self._number, "what": what} | more) + b"\n"
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
            if synced:
                os.fsync(file)
        finally:
            os.close(file)

    async def post(self, request: SinkRequest) -> Answer | None:
        """Store a body, with the fault of the mode. None: the connection is cut."""
        key, process = request.headers.get("idempotency-key"), request.headers.get("x-process")
        marker = request.headers.get("x-marker")
        body = msgspec.json.decode(request.body or b"null")
        id = content_id(request.path, body)
        fault = self._fault(id, body)
        known = key if self.mode.keys else None
        about = {"id": id, "path": request.path, "key": known, "marker": marker, "body": body}
        self.write("posted", **about, process=process, fault=fault)
        if fault == "refuse":
            self.write("refused", id=id, key=key)
            return 409, {"error": "refused"}
        if fault == "kill_before":
            return self._kill(process)
        if fault.startswith("late") or fault == "kill_late":
            landing = asyncio.ensure_future(self._land(SinkRecord(id, request.path, known, marker or key, body)))
            self.landings.add(landing)
            landing.add_done_callback(self.landings.discard)
            if fault == "kill_late":
                return self._kill(process)
            return None if fault == "late_cut" else await landing
        if fault == "slow":
            await asyncio.sleep(self.mode.delay or 0)
        answer = self._keep(SinkRecord(id, request.path, known, marker or key, body))
        if fault == "kill_after":
            return self._kill(process)
        if fault == "kill_replied":
            request.after_reply = self.kill_after_reply
        return {"error": (500, {"error": "failed after the commit"}), "cut": None}.get(fault, answer)

    def _kill(self, process: str | None) -> Answer | None:
        """Kill the client that sent the request, which named its process."""
        if process is not None and process.isdecimal() and int(process) > 1:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
            self.write("killed", process=process)
        return None

    async def kill_after_reply(self, request: SinkRequest) -> None:
        """Kill the client whose answer was just written."""
        await asyncio.sleep(self.mode.delay or 0)
        self._kill(request.headers.get("x-process"))

    def _fault(self, id: str, body: Any) -> str:
        if self.mode.only is not None and body != self.mode.only:
            return "none"
        self._met[id] = self._met.get(id, 0) + 1
        return self.mode.fault if self._met[id] <= self.mode.times else "none"

    async def _land(self, new: SinkRecord) -> Answer:
        """Store it later, whether or not the client still waits for the answer."""
        self.held.append(released := asyncio.Event())
        try:
            await asyncio.wait_for(released.wait(), self.mode.delay)
        except TimeoutError:
            pass
        return self._keep(new)

    def _keep(self, new: SinkRecord) -> Answer:
        there = next((one for one in self.kept if new.key is not None and one.key == new.key), None)
        if there is not None and there.id != new.id:
            self.write("misused", id=new.id, key=new.key)
            return 422, {"error": "this key was used for another body"}
        if there is not None:
            self.write("repeated", id=new.id, key=new.key, gone=there.gone)
            return 200, {"id": there.id}
        self.kept.append(new)
        self.write("kept", synced=True, id=new.id, path=new.path, key=new.key, marker=new.marker, body=new.body)
        return 201, {"id": new.id}

    def find(self, request: SinkRequest) -> Answer:
        found = [one for one in self._matching(request) if not one.gone]
        process = request.headers.get("x-process")
        self.write("looked", path=request.path, query=request.query, found=len(found), process=process)
        shown = [one.shown() for one in found]
        single = not request.query and found and all(request.path == f"{one.path}/{one.id}" for one in found)
        return 200, shown[0] if single else shown

    def delete(self, request: SinkRequest) -> Answer:
        found = [one for one in self._matching(request) if not one.gone]
        for one in found:
            one.gone = True
        process = request.headers.get("x-process")
        self.write("deleted", synced=True, path=request.path, query=request.query,
                   ids=[one.id for one in found], process=process)  # fmt: skip
        return 200, {"deleted": len(found)}

    def _matching(self, request: SinkRequest) -> list[SinkRecord]:
        key = request.query.get("key")
        return [
            one
            for one in self.kept
            if request.path in (one.path, f"{one.path}/{one.id}") and (key is None or key in (one.key, one.marker))
        ]

    async def control(self, request: SinkRequest) -> Answer:
        """Control requests of the tests, beside the service itself."""
        match request.method, request.path:
            case "POST", "-/mode":
                self.mode = msgspec.json.decode(request.body, type=FaultMode)
                if self.mode.fault not in (*FAULTS, *KILLS):
                    return 422, {"error": f"the faults are {', '.join((*FAULTS, *KILLS))}"}
            case "POST", "-/release":
                for released in self.held:
                    released.set()
                await asyncio.gather(*self.landings, return_exceptions=True)
            case "POST", "-/note":
                self.write("noted", note=msgspec.json.decode(request.body))
            case "GET", "-/kept":
                return 200, [one.shown() for one in self.kept if not one.gone]
            case "GET", "-/log":
                return 200, read_log(self.log)
            case "GET", "-/counts":
                lines = read_log(self.log)
                return 200, {what: sum(line["what"] == what for line in lines) for what in sorted(_whats(lines))}
            case _:
                return 404, {"error": "nothing is here"}
        return 200, {}


def content_id(path: str, body: Any) -> str:
    """The id of what is posted: derived from the content, so that equal programs get equal ids."""
    return sha256(msgspec.json.encode([path, body], order="sorted")).hexdigest()[:12]


def _whats(lines: list[dict[str, Any]]) -> set[str]:
    return {line["what"] for line in lines}


def read_log(path: Path) -> list[dict[str, Any]]:
    """The log of a run, from its file. A run without requests has none."""
    try:
        return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    except FileNotFoundError:
        return []


class SinkService:
    """All runs, behind one port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[str, SinkRun] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await read_request(reader)) is not None:
                answer = await self._answer(request)
                if answer is None:
                    writer.transport.abort()
                    return
                write_response(writer, *answer)
                await writer.drain()
                if request.after_reply is not None:
                    await request.after_reply(request)
        except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError):
            writer.transport.abort()
        finally:
            writer.close()

    async def _answer(self, request: SinkRequest) -> Answer | None:
        name, _, request.path = request.path.strip("/").partition("/")
        if request.method == "DELETE" and not request.path:
            if self._runs.pop(name, None):
                (self._folder / f"{name}.jsonl").unlink(missing_ok=True)
            return 200, {}
        if name not in self._runs:
            self._runs[name] = SinkRun(self._folder / f"{name}.jsonl")
        run = self._runs[name]
        if request.path.startswith("-/"):
            return await run.control(request)
        match request.method:
            case "POST" | "PUT" | "PATCH":
                return await run.post(request)
            case "GET":
                return run.find(request)
            case "DELETE":
                return run.delete(request)
        return 404, {"error": f"nothing answers {request.method}"}


async def main(folder: Path) -> None:
    """Serve until the parent process is gone."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    server = await asyncio.start_server(SinkService(folder).serve, sock=listener)
    print(listener.getsockname()[1], flush=True)
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), gone.set)
    await gone.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
