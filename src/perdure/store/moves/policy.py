"""Moves and reads of the store's policy. No dispatch is committed under a policy that is not active any more.

    activate   adds a version, and makes it the active one
    freeze     nothing is dispatched from its commit on
    thaw       the active version may be dispatched under again

Every dispatch writes the version whose fence it was judged under, from the row `policy_fence`; if another one is active
or the policy is frozen, there is no version to write, and the database refuses the dispatch as a whole (`attempt.sql`).

On PostgreSQL a dispatch sees the fence as it was when its statement began. So these moves first take a lock that no
dispatch is compatible with: they wait for dispatches that have begun, and later ones wait for them and see their
result. They wait briefly and are tried again, because dispatches queue behind them. SQLite has one writer.

Each move finds its own line in the control log if it runs again after a commit whose outcome was unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from perdure.domain.policy_version import FIRST_FENCE, PolicyFence, PolicyVersion, fence_of
from perdure.domain.principal import Role
from perdure.errors import ConfigError, IllegalMove, NotFound, PolicyChanged
from perdure.ids import check_text, digest
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import control_log, principal
from perdure.store.topics import WORKERS

LARGEST = 1 << 20  # characters of a text
MANY = 1_000_000
LARGEST_VERSION = 2**63 - 1  # that a column holds
OF_EPOCH = 1000  # versions of a restore epoch: after a restore the numbers of the lost time do not come again
FIRST_WAIT, LONGEST_WAIT = 100, 2000  # milliseconds; the longest is enough for the server to stop a vacuum
UNFROZEN = dict.fromkeys(("frozen_at", "frozen_by", "frozen_because"))


def activate(source: str, *, by: str, because: str) -> Move[PolicyVersion]:
    """Make a text the active policy. The text that is active already changes nothing."""
    _check(by, because)
    if len(check_text("The policy", source)) > LARGEST:
        raise ConfigError(f"A policy has at most {LARGEST:,} characters, not {len(source):,}.")

    patience = _patience()

    def run(tx: StoreTransaction) -> PolicyVersion:
        _check_may_change(tx)
        now = _exclude(tx, next(patience))
        if (row := tx.one("policy.of_move", move_id=tx.move_id)) is not None:
            return PolicyVersion.from_row(row)
        active, text_digest = newest(tx), digest(source)
        if active is not None and active.digest == text_digest:
            return active
        version = max(now.version + 1, tx.restore_epoch * OF_EPOCH + 1)
        fence = fence_of(version, text_digest, by, because, tx.now, tx.move_id)
        made = PolicyVersion(version, text_digest, fence, source, by, because, tx.now, tx.move_id)
        tx.run("policy.insert", **made.to_dict())
        frozen = now.frozen_at is not None
        put = {"frozen_at": now.frozen_at, "frozen_by": now.frozen_by, "frozen_because": now.frozen_because}
        tx.run("policy.put_fence", version=version, fence=None if frozen else fence, **put)
        said = {"version": version, "digest": text_digest, "because": because}
        control_log.append(tx, "policy.set", by, said)
        tx.wake_service(WORKERS)
        return made

    return Move("policy.activate", "plain", run)


def freeze(*, by: str, because: str) -> Move[PolicyFence]:
    """Stop every dispatch. Frozen again, it stays as it is."""
    _check(by, because)
    patience = _patience()

    def run(tx: StoreTransaction) -> PolicyFence:
        _check_may_change(tx)
        now = _exclude(tx, next(patience))
        if control_log.was_written(tx) or now.frozen_at is not None:
            return now
        columns: dict[str, Any] = {"frozen_at": tx.now, "frozen_by": by, "frozen_because": because}
        tx.run("policy.put_fence", version=now.version, fence=None, **columns)
        control_log.append(tx, "policy.frozen", by, {"version": now.version, "because": because})
        return fence(tx)

    return Move("policy.freeze", "plain", run)


def thaw(*, by: str, because: str | None = None) -> Move[PolicyFence]:
    """Allow dispatches again, under the active version."""
    _check(by, "thaw" if because is None else because)
    patience = _patience()

    def run(tx: StoreTransaction) -> PolicyFence:
        _check_may_change(tx)
        now = _exclude(tx, next(patience))
        if control_log.was_written(tx):
            return now
        if now.frozen_at is None:
            raise IllegalMove("The policy is not frozen.", hint="`perdure policy show` shows its state.")
        active = newest(tx)
        tx.run(
            "policy.put_fence", version=now.version, fence=FIRST_FENCE if active is None else active.fence, **UNFROZEN
        )
        control_log.append(tx, "policy.thawed", by, {"version": now.version, "because": because})
        tx.wake_service(WORKERS)
        return fence(tx)

    return Move("policy.thaw", "plain", run)


def _check(by: str, because: str) -> None:
    check_text("Who changes the policy", by)
    if not check_text("The reason", because).strip():
        raise ConfigError("A change of the policy needs a reason.", hint="Give one with --because.")


def _check_may_change(tx: StoreTransaction) -> None:
    """In a store with principals, owners change its policy; in a store without, every user may."""
    if not principal.is_governed(tx):
        return
    me = principal.of_identity(tx, tx.identity)
    if me is None or Role.OWNER not in me.roles:
        who = f"{tx.identity} is not registered" if me is None else f"{me.name} is not an owner"
        raise IllegalMove(f"Only an owner changes the policy, and {who}.", hint="`perdure principals` lists them.")


def _patience() -> Iterator[int]:
    """How long each try waits for dispatches that are being committed, in milliseconds."""
    return (min(FIRST_WAIT << tries, LONGEST_WAIT) for tries in count())


def _exclude(tx: StoreTransaction, patience: int) -> PolicyFence:
    """Lock the fence, and keep dispatches out until the transaction ends.

    In this order one change waits for another without a short limit, and before it keeps dispatches out.
    """
    now = PolicyFence(*(tx.one("policy.lock_fence") or ()))
    tx.exclude_dispatches(patience)
    return now


def fence(tx: StoreTransaction) -> PolicyFence:
    """What every dispatch must match now."""
    return PolicyFence(*(tx.one("policy.fence") or ()))


def check_fence(tx: StoreTransaction, judged: str | None) -> None:
    """Refuse what was judged by another policy than the active one; None: it was judged by none."""
    if judged is not None and fence(tx).fence != judged:
        raise PolicyChanged("The policy changed before this was recorded.")


def newest(tx: StoreTransaction) -> PolicyVersion | None:
    """The active version. None: no policy was set yet."""
    row = tx.one("policy.newest")
    return PolicyVersion.from_row(row) if row else None


def active(tx: StoreTransaction, known: str | None = None) -> tuple[PolicyFence, PolicyVersion | None]:
    """The fence and the active version, without the version if its fence is `known` already."""
    now = fence(tx)
    return now, None if now.version == 0 or now.fence == known else newest(tx)


def get(tx: StoreTransaction, version: int) -> PolicyVersion:
    row = tx.one("policy.get", version=version) if 0 < version <= LARGEST_VERSION else None
    if row is None:
        raise NotFound(f"There is no version {version} of the policy.", hint="`perdure policy history` lists them.")
    return PolicyVersion.from_row(row)


def active_at(tx: StoreTransaction, at: int) -> PolicyVersion | None:
    """The version that was active at a time. None: no policy was set yet."""
    row = tx.one("policy.active_at", at=at)
    return PolicyVersion.from_row(row) if row else None


def versions(tx: StoreTransaction, *, limit: int = MANY) -> list[PolicyVersion]:
    """Every version, the newest first."""
    return [PolicyVersion.from_row(row) for row in tx.all("policy.list", limit=limit)]
