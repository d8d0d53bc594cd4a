"""Moves and reads of checkpoints: fenced like every write of a holder, and only a cache of the log."""

from __future__ import annotations

from perdure.domain.checkpoint import Checkpoint
from perdure.domain.lease import Holder
from perdure.errors import ConfigError
from perdure.ids import check_text
from perdure.store.invocation import described
from perdure.store.move import Move, StoreTransaction, hold, plain_move


@described
def put(holder: Holder, *, number: int, codec: str, fingerprint: str, body: str, keep_through: int = 0) -> Move[None]:
    """Keep the state after event `number` and drop older ones, but not those up to `keep_through`. Leaves no event."""
    check_text("The checkpoint", codec + fingerprint)
    if "\0" in body:
        raise ConfigError("The checkpoint contains a NUL, which cannot be stored as text.", hint="Encode it as text.")

    def run(tx: StoreTransaction) -> None:
        log = hold(tx, holder)
        tx.run(
            "checkpoint.put",
            uid=log.uid, number=number, codec=codec, fingerprint=fingerprint, body=body, now=tx.now,
        )  # fmt: skip
        tx.run("checkpoint.trim", uid=log.uid, after=keep_through, before=number)

    return Move("checkpoint.put", "holder", run)


@plain_move
def delete_all(tx: StoreTransaction) -> int:
    """Delete every checkpoint."""
    return tx.run("checkpoint.delete_all")


def latest(tx: StoreTransaction, uid: str, fingerprint: str, *, through: int = 2**62) -> Checkpoint | None:
    """The newest checkpoint that this program, its tools and its model can start from."""
    row = tx.one("checkpoint.latest", uid=uid, fingerprint=fingerprint, through=through, limit=1)
    return Checkpoint.from_row(row) if row else None
