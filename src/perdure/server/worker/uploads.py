"""Which bytes a token has uploaded: only these may its workers name, unless a session that it covers has them.

    bytes     durable in the folder of the artifacts
    remember  a request that was carried out, under the token's tag and the digest; only then is the upload answered
    claim     a move names the digest, at most a day later: then the request is forgotten

A digest is no proof that a worker has the bytes: it stands in links, logs and answers. Each upload of the same bytes
begins the day anew, and a worker uploads them again long before it ends.
"""

from __future__ import annotations

from perdure.domain.caller import Caller
from perdure.server.worker.tag import tag_of
from perdure.store.move import StoreTransaction, plain_move
from perdure.store.moves import request

OPERATION = "work.upload"


@plain_move
def remember(tx: StoreTransaction, caller: Caller, digest: str) -> None:
    """Remember an upload from now on."""
    request.drop(tx, caller.key, _key(caller, digest))
    request.insert(tx, caller.key, _key(caller, digest), operation=OPERATION, digest=digest, ids={}, is_done=True)


def is_known(tx: StoreTransaction, caller: Caller, digest: str) -> bool:
    """Whether the token has uploaded these bytes."""
    return request.get(tx, caller.key, _key(caller, digest)) is not None


def _key(caller: Caller, digest: str) -> str:
    return f"{OPERATION}:{tag_of(caller)}:{digest}"
