"""Artifacts: lists, and their bytes as downloads.

The bytes were written by agents, so a browser must never show them as a page of the service: they are always a download
of an unknown type, in a sandbox.
"""

from __future__ import annotations

import re

from starlette.responses import Response

from perdure.domain.artifact import Artifact
from perdure.domain.caller import Verb
from perdure.errors import ConfigError
from perdure.server.authorization import Sight
from perdure.server.operation import Context, Operation, Touch
from perdure.server.page import Page, PageQuery, keyed_page
from perdure.server.requests.versions import has_already
from perdure.server.stream.download import Download
from perdure.store.moves import page

BINARY = "application/octet-stream"
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
HEADERS = {
    "Accept-Ranges": "bytes",
    "Cache-Control": "private, no-store",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}


class ArtifactQuery(PageQuery, frozen=True):
    """Of which session."""

    session: str | None = None


async def listing(context: Context) -> Page[Artifact]:
    query: ArtifactQuery = context.query
    sight = Sight(context)
    uid = await sight.session_uid(query.session)
    return await keyed_page(context, sight, page.artifacts, (int, str, str), uid=uid)


async def get(context: Context) -> Response:
    """The bytes, or a range of them; a client that has them is told so, and nothing is read."""
    digest, headers = context.found[0].digest, context.request.headers
    tag = f'"{digest}"'
    name = {"Content-Disposition": f'attachment; filename="{digest[:16]}.bin"', "ETag": tag}
    if has_already(headers.get("if-none-match"), tag):
        return Response(None, 304, HEADERS | name)
    file, size = await context.runtime.queries.open_artifact(digest)
    asked = headers.get("range") if headers.get("if-range", tag).strip() == tag else None
    try:
        part = read_range(asked, size)
    except BaseException:
        file.close()
        raise
    first, last = part or (0, size - 1)
    place = {} if part is None else {"Content-Range": f"bytes {first}-{last}/{size}"}
    status = 200 if part is None else 206
    return Download(
        context.request, file, first, last, status=status, headers=HEADERS | name | place, media=BINARY
    )  # fmt: skip


def read_range(given: str | None, size: int) -> tuple[int, int] | None:
    """The first and last byte of a range; None for all bytes. A header of several ranges or another form is ignored."""
    match = None if given is None else _RANGE.fullmatch(given.strip())
    if match is None or match[0] == "bytes=-":
        return None
    if not match[1]:
        first, last = max(0, size - int(match[2])), size - 1
    else:
        first, last = int(match[1]), min(int(match[2] or size), size - 1)
    if first > last or first >= size:
        outside = {"Content-Range": f"bytes */{size}"}
        raise ConfigError(f"The range is outside of the {size:,} bytes.", status=416, headers=outside)
    return first, last


OPERATIONS = (
    Operation(
        name="artifacts.list", method="GET", path="/v1/artifacts", verb=Verb.READ_ARTIFACT, touches=Touch.LISTING,
        handler=listing, answer=Page[Artifact], query=ArtifactQuery, summary="Artifacts, the newest first.",
    ),
    Operation(
        name="artifacts.get", method="GET", path="/v1/artifacts/{digest}", verb=Verb.READ_ARTIFACT,
        touches=Touch.ARTIFACT, handler=get, media=BINARY, refusals=(409, 416), partial=True,
        summary="The bytes of an artifact, by its digest; a range of them with `Range`.",
    ),
)  # fmt: skip
