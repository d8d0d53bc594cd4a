"""Moves and reads of the artifact index. The bytes come first: a row is written only when they are durable."""

from __future__ import annotations

import msgspec

from perdure.domain.artifact import Artifact, Retention
from perdure.errors import Conflict, NotFound
from perdure.ids import check_text
from perdure.store.move import Log, StoreTransaction, outsider_move

JSON, TEXT = "application/json", "text/plain"  # kinds of artifacts


class ArtifactClaim(msgspec.Struct, frozen=True):
    """Bytes that are durable already, and belong to a session from an event on."""

    digest: str
    size: int
    kind: str


@outsider_move
def index(log: Log, digest: str, *, kind: str, size: int, location: str, retention: Retention) -> None:
    """Claim bytes that are durable already. Claiming them again changes nothing."""
    check_text("The artifact", digest + kind + location)
    fresh = log.tx.run(
        "artifact.insert",
        uid=log.uid, digest=digest, kind=kind, size=size, location=location, retention=retention, now=log.tx.now,
    )  # fmt: skip
    if fresh:
        log.append("artifact.saved", {"digest": digest, "kind": kind, "size": size, "retention": retention})


def claim(log: Log, one: ArtifactClaim) -> None:
    """Claim bytes for as long as the session is kept, in the move that names them."""
    location = f"{one.digest[:2]}/{one.digest}"
    index.on(log, one.digest, kind=one.kind, size=one.size, location=location, retention=Retention.SESSION)


def of_session(tx: StoreTransaction, uid: str, *, limit: int = 10_000) -> list[Artifact]:
    return [Artifact.from_row(row) for row in tx.all("artifact.of_session", uid=uid, limit=limit)]


def digests(tx: StoreTransaction, *, after: str = "", limit: int = 10_000) -> list[str]:
    """Digests that some session claims, in order, a page at a time."""
    return [row[0] for row in tx.all("artifact.digests", after=after, limit=limit)]


def listing(tx: StoreTransaction, uid: str | None = None, *, limit: int = 100) -> list[Artifact]:
    """Artifacts of one session or of all, the newest first. Each session that claims the same bytes has its own row."""
    return [Artifact.from_row(row) for row in tx.all("artifact.list", uid=uid, limit=limit)]


def find_digest(tx: StoreTransaction, prefix: str) -> str:
    """The digest of an artifact, given in full or by a unique prefix."""
    wanted = check_text("The digest", prefix).lower()
    rows = tx.all("artifact.by_prefix", prefix=wanted, beyond=wanted + "g", limit=3) if wanted else []
    if not rows:
        raise NotFound(f"There is no artifact {prefix[:64]!r}.", hint="`perdure artifacts ls` lists them.")
    if len(rows) > 1:
        names = ", ".join(row[0][:16] for row in rows)
        raise Conflict(f"{prefix!r} is the prefix of several artifacts: {names}.", hint="Give more characters.")
    return str(rows[0][0])


def claims(tx: StoreTransaction, digest: str, *, limit: int = 10_000) -> list[Artifact]:
    """What sessions have an artifact, by its whole digest."""
    return [Artifact.from_row(row) for row in tx.all("artifact.claims", digest=digest, limit=limit)]
