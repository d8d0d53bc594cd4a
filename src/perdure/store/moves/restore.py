"""Restores: the store was put back to an earlier time, declared or detected.

    begin      a new restore epoch; every earlier lease is void, so no old token can move or dispatch anything
    declare    the same, because a person reports that the store was restored
    presume    instead of a first dispatch: an attempt that may have been made, outcome unknown
    release    a person has examined what was lost; from now on first dispatches are normal again

`begin` is one transaction and comes before any other use of the store, so a crash leaves the store not yet opened or in
its new epoch. The rows cannot show a restore, so every opening checks for one: SQLite has a witness beside the file,
PostgreSQL its timeline.
"""

from __future__ import annotations

from perdure.domain.effect import Effect, Rule
from perdure.domain.lease import RESTORE_SHIFT
from perdure.domain.restore import Cause, Restore, may_have_happened, presumed_attempt
from perdure.errors import ConfigError, NotFound
from perdure.ids import check_name, check_text, encode
from perdure.store.move import Log, StoreTransaction, holder_move, plain_move
from perdure.store.moves import effect as effects
from perdure.store.moves import lease, meta
from perdure.store.moves.attempt import attempts_of

TIMELINE = "timeline"


def begin(
    tx: StoreTransaction, cause: Cause, detail: str | None = None, *, after: int = 0, timeline: str | None = None
) -> Restore:
    """Begin a new restore epoch. Processes that have the store open must open it again.

    `after` is an epoch of the lost time: its rows are lost too, and its number must not be used again.
    """
    epoch = max(int(meta.get(tx, "restore_epoch") or 0), after) + 1
    columns = {"cause": cause, "detail": detail, "timeline": timeline}
    tx.send("restore.insert", epoch=epoch, rewound_to=rewound_to(tx), now=tx.now, **columns)
    tx.send("meta.put", key="restore_epoch", value=str(epoch))
    tx.send("restore.void_leases", epoch=epoch << RESTORE_SHIFT)
    found = newest(tx)
    assert found is not None
    return found


@plain_move
def declare(tx: StoreTransaction, *, by: str, because: str, known: int) -> Restore:
    """Begin a restore epoch because a person reports that the store was restored.

    `known` is the epoch that the caller has read: written twice, this begins only one epoch.
    """
    check_name("The name of the person", by)
    if not because.strip():
        raise ConfigError("Declaring a restore needs a reason.", hint="Describe what was restored with --because.")
    check_text("The reason", because)
    detail = f"{by}: {because}"
    last = newest(tx)
    if last is not None and last.epoch > known and (last.cause, last.detail) == (Cause.DECLARED, detail):
        return last
    return begin(tx, Cause.DECLARED, detail)


@plain_move
def release(tx: StoreTransaction, *, by: str, because: str) -> list[Restore]:
    """Release restores after a person examined what was lost; again, it changes nothing. Returns the released ones."""
    check_name("The name of the person", by)
    if not because.strip():
        raise ConfigError("Releasing a restore needs a reason.", hint="Name what you checked with --because.")
    check_text("The reason", because)
    tx.send("restore.release", by=by, because=because, now=tx.now)
    tx.send("writer.forget_behind")
    said = [one for one in listing(tx) if (one.released_by, one.released_because) == (by, because)]
    if not said:
        raise NotFound("No restore waits to be released.")
    return said


@holder_move
def presume(log: Log, id: str, restore: Restore, rule: Rule) -> Effect:
    """Treat an effect as dispatched with an unknown outcome, because it may have happened in the time that was lost."""
    effect, attempts = effects.get(log.tx, log.uid, id), attempts_of(log.tx, log.uid, id)
    if not may_have_happened(effect, attempts, restore, rule) or unreleased_for(log.tx, log.uid) is None:
        return effect  # it was released meanwhile, or this session is known to have lost nothing
    assert log.holder is not None
    taken = lease.claim(log, id, effect.position, effect.leases) if effect.leases else {}
    made = presumed_attempt(effect, attempts, restore, log.tx.now)
    log.tx.send(
        "effect.dispatch",
        uid=log.uid,
        id=id,
        policy_version=effect.policy_version,
        rule=effect.rule,
        exemption_id=effect.exemption_id,
    )
    log.tx.send("effect.presume", uid=log.uid, id=id, epoch=restore.epoch)
    log.tx.send(
        "attempt.keep",
        uid=log.uid, effect_id=id, number=made.number, worker=made.worker, epoch=log.holder.epoch,
        process=encode(made.process), sandbox=None, deadline_at=None, outcome=made.outcome, error=None,
        ended_at=made.ended_at, settled_at=made.settled_at, now=made.dispatched_at, ended_boot=made.ended_boot,
        policy_version=effect.policy_version or "0", rule=effect.rule,
    )  # fmt: skip
    spent = {"doubted_at": None, "doubt": None, "verdict": None, "verdict_by": None, "verdict_because": None}
    row = {"id": id, "state": "dispatched", "restore_epoch": restore.epoch} | spent
    log.append("effect.presumed", {"attempt": made.number} | taken, rows={"effect": [row]}, effect_id=id)
    return effects.get(log.tx, log.uid, id)


def rewound_to(tx: StoreTransaction) -> int:
    """The newest time that is recorded in the store."""
    (at,) = tx.one("restore.rewound_to") or (0,)
    return int(at)


def newest(tx: StoreTransaction) -> Restore | None:
    row = tx.one("restore.newest")
    return Restore.from_row(row) if row else None


def unreleased_for(tx: StoreTransaction, uid: str) -> Restore | None:
    """The newest unreleased restore that happened during the life of a session.

    A child that is created again after a restore has the uid and the keys that it had in the lost time, but is younger
    than the restore. So its oldest ancestor counts.
    """
    row = tx.one("restore.over", uid=uid)
    return Restore.from_row(row) if row else None


def listing(tx: StoreTransaction, *, limit: int = 1000) -> list[Restore]:
    return [Restore.from_row(row) for row in tx.all("restore.list", limit=limit)]


def follow_timeline(tx: StoreTransaction, now: str, *, after: int = 0) -> Restore | None:
    """Begin a restore epoch if the server's history differs from the one that the store was last used with."""
    known = meta.get(tx, TIMELINE)
    if known == now:
        return None
    tx.send("meta.put", key=TIMELINE, value=now)
    number = int(now.rpartition("/")[2], 16)  # rises with every new history, even if rows are lost
    if known is None:
        return None
    detail, after = f"{known} became {now}", max(after, number - 1)
    return begin(tx, Cause.TIMELINE, detail, after=after, timeline=now if is_behind(known, now) else None)


def is_behind(history: str, newest: str) -> bool:
    """Whether a server's history had ended when the newest known one began."""
    (server, _, number), (known, _, last) = history.rpartition("/"), newest.rpartition("/")
    return bool(server) and server == known and int(number, 16) < int(last, 16)
