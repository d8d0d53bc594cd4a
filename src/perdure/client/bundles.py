"""Bundles over HTTP: a session of a service is written into a file, or a file is sent to a service.

Both are sent again after a lost connection, under one idempotency key: a move seals its session once, and importing
twice changes nothing. What arrives is checked against the digest that the service names before it gets its name.
"""

from __future__ import annotations

import asyncio
import os
import zipfile
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import httpx
import msgspec

from perdure.client.connection import (
    KEY,
    RetryPauses,
    ServiceCall,
    ServiceConnection,
    can_be_sent_again,
    encode_body,
)
from perdure.client.problems import error_of
from perdure.control.operations import bundle_name
from perdure.control.session_files import ImportedSession
from perdure.errors import Conflict, NotFound, PerdureError, StoreUnavailable
from perdure.ids import new_uid
from perdure.interchange.bundle import MANIFEST, Manifest, read_manifest
from perdure.interchange.export import Exported
from perdure.interchange.import_ import Imported
from perdure.interchange.signing_keys import Signer
from perdure.runtime.queries import SessionView

ZIP = "application/zip"
CHUNK = 1 << 16
SILENCE = 120.0  # seconds without a byte
LARGEST_MANIFEST = 64 << 20


class ImportAnswer(msgspec.Struct, frozen=True):
    """The session that continues at the service."""

    session: SessionView
    changed: bool
    signed: bool


async def export(
    connection: ServiceConnection, id: str, uid: str, to: str | Path | IO[bytes] | None, body: dict[str, Any]
) -> Exported:
    """Write a session as a bundle: into a file that does not exist, or into a binary stream."""
    call = ServiceCall("POST", f"/v1/sessions/{uid}/export", {}, encode_body(body))
    if to is not None and not isinstance(to, str | Path):
        with TemporaryFile() as kept:
            digest = await _download(connection, call, kept)
            about = await asyncio.to_thread(_about, kept)
            kept.seek(0)
            while chunk := await asyncio.to_thread(kept.read, CHUNK):
                await asyncio.to_thread(to.write, chunk)
        return _exported("stream", digest, *about)
    path = Path(to) if to is not None else Path(bundle_name(id))
    await asyncio.to_thread(_check_free, path)
    partial = path.with_name(f".{path.name}.{new_uid()[:8]}.part")
    try:
        with await asyncio.to_thread(partial.open, "x+b") as file:
            digest = await _download(connection, call, file)
            about = await asyncio.to_thread(_about, file)
            await asyncio.to_thread(os.fsync, file.fileno())
        await asyncio.to_thread(partial.rename, path)
    finally:
        await asyncio.to_thread(partial.unlink, missing_ok=True)
    return _exported(str(path), digest, *about)


async def import_(
    connection: ServiceConnection, source: str | Path | IO[bytes], query: dict[str, str]
) -> ImportedSession:
    """Send a bundle to the service, which checks it whole before it takes it in."""
    if isinstance(source, str | Path):
        path = Path(source)
        if not await asyncio.to_thread(path.is_file):
            raise NotFound(f"There is no bundle {path}.", hint="Through a service a bundle is one .zip file.")
        with await asyncio.to_thread(path.open, "rb") as file:
            return await _send(connection, file, query)
    return await _send(connection, source, query)


async def _send(connection: ServiceConnection, file: IO[bytes], query: dict[str, str]) -> ImportedSession:
    manifest, _ = await asyncio.to_thread(_about, file)
    headers, retries = {KEY: new_uid(), "Content-Type": ZIP}, RetryPauses(connection)
    while True:
        file.seek(0)
        try:
            answer = await connection.http.request(
                "POST", "/v1/import", params=query, content=_chunks(file), headers=headers, timeout=SILENCE
            )
        except httpx.TransportError as lost:
            await retries.pause(connection.lost(lost))
            continue
        if answer.is_success:
            break
        error = error_of(answer.status_code, answer.content)
        if not can_be_sent_again(error, answer.status_code):
            raise error
        await retries.pause(error, answer.headers.get("retry-after"))
    found = msgspec.json.decode(answer.content, type=ImportAnswer)
    signer = Signer(state="known" if found.signed else "none")
    return ImportedSession(Imported(
        session=found.session, mode=manifest.mode, source=manifest.session, changed=found.changed,
        counts=manifest.counts, signer=signer,
    ))  # fmt: skip


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, CHUNK):
        yield chunk


async def _download(connection: ServiceConnection, call: ServiceCall, file: IO[bytes]) -> str:
    """The content of an answer, whole; returns its digest."""
    headers, retries = {KEY: new_uid(), "Content-Type": call.media}, RetryPauses(connection)
    while True:
        file.seek(0)
        file.truncate()
        hashed = sha256()
        try:
            async with connection.stream(call, headers, SILENCE) as answer:
                async for piece in answer.aiter_bytes(CHUNK):
                    hashed.update(piece)
                    await asyncio.to_thread(file.write, piece)
            told: str = answer.headers.get("perdure-digest", "").removeprefix("sha-256=")
            if told == hashed.hexdigest():
                file.flush()
                return told
            error: PerdureError = StoreUnavailable("The bundle did not arrive as it was sent.")
        except PerdureError as raised:
            if not can_be_sent_again(raised, raised.details.get("status", 503)):
                raise
            error = raised
        await retries.pause(error)


def _about(file: IO[bytes]) -> tuple[Manifest, str]:
    """The manifest of a bundle, and its digest."""
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as bundle:
            if bundle.getinfo(MANIFEST).file_size > LARGEST_MANIFEST:
                raise KeyError(MANIFEST)
            content = bundle.read(MANIFEST)
    except (zipfile.BadZipFile, KeyError, OSError, EOFError) as error:
        raise NotFound("There is no manifest.json: this is not a bundle, or it is torn.") from error
    return read_manifest(content), sha256(content).hexdigest()


def _check_free(path: Path) -> None:
    if not path.parent.is_dir():
        raise NotFound(f"There is no folder {path.parent}.", hint="Make it, or name another place with --to.")
    if os.path.lexists(path):
        raise Conflict(f"{path} is there already.", hint="Name another place with --to, or move it away.")


def _exported(path: str, digest: str, manifest: Manifest, manifest_digest: str) -> Exported:
    return Exported(
        path=path, mode=manifest.mode, session=manifest.session, copy=manifest.copy, sha256=digest,
        manifest_sha256=manifest_digest, counts=manifest.counts, notes=manifest.notes,
    )  # fmt: skip
