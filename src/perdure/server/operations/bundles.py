"""Export and import of sessions as bundles, in streams.

A bundle may come from anyone: it is read within limits, checked whole, and written in one transaction. What is torn,
forged or too large is refused and changes nothing. A move seals the session here before its first byte is sent; if the
answer is lost, the same request again sends the same bundle.
"""

from __future__ import annotations

import asyncio
import os
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from perdure.control.operations import bundle_name
from perdure.domain.caller import Verb
from perdure.errors import ConfigError, Conflict
from perdure.runtime.queries import SessionView
from perdure.server.operation import Body, Context, Ids, Operation, Touch
from perdure.server.stream.download import Download

ZIP = "application/zip"
NAME = "bundle.zip"


class ExportSession(Body, frozen=True):
    """A copy, or with `move` the session itself, which is sealed here."""

    move: bool = False
    files: bool = True
    thin: bool = False


class ImportQuery(Body, frozen=True):
    """The id that the session gets here, and whether a session that was moved away is taken back."""

    id: str | None = None
    take_back: bool = False
    keep_owner: bool = False
    signed_by: str | None = None


class ImportedView(msgspec.Struct, frozen=True):
    """The session that continues here, and whether anything changed."""

    session: SessionView
    changed: bool
    signed: bool


async def export(context: Context) -> Response:
    body: ExportSession = context.body
    assert context.session is not None
    folder = TemporaryDirectory(prefix="perdure-export-")
    name = bundle_name(context.session.id)
    try:
        path = Path(folder.name, name)
        done = await context.runtime.export(
            context.uid, path, move=body.move, files=body.files, thin=body.thin, by=context.by
        )
        file = await asyncio.to_thread(path.open, "rb")
    except BaseException:
        await asyncio.to_thread(folder.cleanup)
        raise
    return Download(
        context.request, file, 0, os.fstat(file.fileno()).st_size - 1, status=200, media=ZIP, finish=folder.cleanup,
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Perdure-Digest": f"sha-256={done.sha256}",
            "Cache-Control": "private, no-store",
        },
    )  # fmt: skip


async def exported(context: Context, _: Ids) -> Response:
    assert context.session is not None
    if context.body.move and context.session.sealed_at is None:
        raise Conflict(
            f"Session {context.session.id} was moved by this request, and has come back since; it was not moved again.",
            hint="Send a new request, with another Idempotency-Key.",
        )
    return await export(context)


async def import_(context: Context) -> ImportedView:
    query: ImportQuery = context.query
    assert context.content is not None
    done = await context.runtime.import_(
        Path(context.content.name, NAME), id=query.id, take_back=query.take_back, signed_by=query.signed_by, keep=(),
        keep_owner=query.keep_owner, by=context.by,
    )  # fmt: skip
    imported = done.imported
    view = await context.runtime.get(imported.session.uid)
    return ImportedView(view, imported.changed, imported.signer.state == "known")


async def receive(context: Context) -> None:
    """Write the body into a file, up to the limit."""
    settings, hashed, size = context.request.app.state.settings, sha256(), 0
    kind = context.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (ZIP, "application/octet-stream"):
        raise ConfigError(f"The body is {kind or 'untyped'!s:.80}, not {ZIP}.", status=415)
    context.content = TemporaryDirectory(prefix="perdure-import-")
    path = Path(context.content.name, NAME)
    with await asyncio.to_thread(path.open, "xb") as file:
        try:
            parts = context.request.stream()
            while True:
                async with asyncio.timeout(settings.slow):
                    part = await anext(parts, None)
                if part is None:
                    break
                size += len(part)
                if size > settings.largest_bundle:
                    raise ConfigError(f"The bundle has more than {settings.largest_bundle:,} bytes.", status=413)
                hashed.update(part)
                await asyncio.to_thread(file.write, part)
        except TimeoutError:
            raise ConfigError(f"No part of the bundle came within {settings.slow:g} seconds.", status=408) from None
        except ClientDisconnect:
            raise ConfigError("The client went away.", status=400) from None
    context.content_digest = hashed.hexdigest()


async def imported_again(context: Context, _: Ids) -> ImportedView:
    return await import_(context)  # importing twice changes nothing


OPERATIONS = (
    Operation(
        name="sessions.export", method="POST", path="/v1/sessions/{id}/export", verb=Verb.EXPORT_SESSION,
        touches=Touch.SESSION, handler=export, body=ExportSession, media=ZIP, again=exported, many_moves=True,
        example={"move": False}, summary="A session as a bundle. With `move` it is sealed here.",
    ),
    Operation(
        name="sessions.import", method="POST", path="/v1/import", verb=Verb.IMPORT_SESSION, touches=Touch.STORE,
        handler=import_, answer=ImportedView, query=ImportQuery, takes=ZIP, receive=receive, status=201,
        again=imported_again, many_moves=True, refusals=(408,),
        summary="Import a bundle. Permissions that it has are dropped; importing it twice changes nothing.",
    ),
)  # fmt: skip
