"""Moves and reads of exemptions.

    grant     a person lifts a rule for what the exemption covers; also recorded in the control log
    use       in the transaction of an effect's first dispatch: a row for the effect, and a guarded count
    revoke    it covers nothing new from its commit on; effects that have used it keep it

A use is written with the attempt that it allows, so a crash leaves both or neither. The row of the use is unique: the
later attempts of an effect count nothing. The count is guarded: if an exemption ended or was used up meanwhile, the
whole dispatch is refused with `PolicyChanged`, and the call is judged anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from perdure.domain.exemption import BUDGET, Exemption, ExemptionScope, ExemptionUse
from perdure.domain.principal import DECIDING, Role
from perdure.errors import ConfigError, Conflict, IllegalMove, NotFound, PolicyChanged
from perdure.ids import check_name, check_text, digest
from perdure.store.move import Log, StoreTransaction, plain_move
from perdure.store.moves import control_log, principal, requester
from perdure.store.topics import WORKERS

MANY = 1_000_000
Grantor = Literal["any", "given", "owner"]  # who must have lifted a rule; see `lifting`
MOST_USES = 1_000_000_000


@plain_move
def grant(
    tx: StoreTransaction, rule: str, scope: ExemptionScope, *, by: str, because: str, expires_at: int | None = None,
    uses: int | None = None, check: Callable[[StoreTransaction], None] | None = None,
) -> Exemption:  # fmt: skip
    """Grant an exemption. `check` refuses it in the same transaction, with what the store has then."""
    if rows := tx.all("exemption.of_move", move_id=tx.move_id, limit=1):
        return Exemption.from_row(rows[0])
    _check_may_grant(tx, by)
    if check is not None:
        check(tx)
    made = _insert(tx, rule, scope, by=by, because=because, expires_at=expires_at, uses=uses)
    control_log.append(tx, "exemption.granted", by, said(made))
    if rule.startswith(BUDGET):
        tx.wake_service(WORKERS)  # sessions may wait for it
    return made


def grant_with_approval(
    log: Log, rules: Sequence[str], scope: ExemptionScope, *, because: str, approval_id: str
) -> list[Exemption]:
    """Grant what a person chose with an approval: an exemption from each rule that asked. It lasts with its session."""
    made = [
        _insert(log.tx, rule, scope, by=log.actor, because=because, approval_id=approval_id, place=place)
        for place, rule in enumerate(rules)
    ]
    for one in made:
        log.append("exemption.granted", said(one))
    for one in made:
        control_log.append(log.tx, "exemption.granted", log.actor, said(one))
    return made


def _insert(
    tx: StoreTransaction, rule: str, scope: ExemptionScope, *, by: str, because: str, expires_at: int | None = None,
    uses: int | None = None, approval_id: str | None = None, place: int = 0,
) -> Exemption:  # fmt: skip
    check_name("The rule", rule)
    check_text("Who grants the exemption", by)
    if not check_text("The reason", because).strip():
        raise ConfigError("An exemption needs a reason.", hint="Give one with --because.")
    _check_scope(rule, scope, uses)
    if uses is not None and not 1 <= uses <= MOST_USES:
        raise ConfigError(f"An exemption has 1 to {MOST_USES:,} uses, not {uses}.")
    if expires_at is not None and expires_at <= tx.now:
        raise ConfigError("The exemption would have expired already.")
    id = "x-" + digest(f"{tx.move_id} {place}")[:16]
    tx.run(
        "exemption.insert",
        id=id, rule=rule, reason=because, granted_by=by, grantor=tx.identity or None, approval_id=approval_id,
        expires_at=expires_at, uses=uses, move_id=tx.move_id, now=tx.now, **msgspec.structs.asdict(scope),
    )  # fmt: skip
    return get(tx, id)


def _check_scope(rule: str, scope: ExemptionScope, uses: int | None) -> None:
    named = (scope.session_uid, scope.repository, scope.owner, scope.tool)
    if all(one is None for one in named):
        raise ConfigError("An exemption must say what it covers.", hint="Name a session, repository, owner or tool.")
    if "" in named:
        raise ConfigError("An empty name covers nothing.", hint="Leave the option out, or give it a name.")
    if rule.startswith(BUDGET) and (uses is not None or scope.tool is not None):  # it is no call that uses it
        raise ConfigError(
            "An exemption from a budget has no tool and no number of uses.",
            hint="Say when it ends with --expires, and name a session, repository or owner.",
        )


@plain_move
def revoke(tx: StoreTransaction, id: str, *, by: str, because: str) -> Exemption:
    """Revoke an exemption. What was revoked already stays as it is."""
    check_text("Who revokes the exemption", by)
    if not check_text("The reason", because).strip():
        raise ConfigError("The reason is empty.", hint="Say why the exemption is revoked.")
    row = tx.one("exemption.lock", id=id)
    if row is None:
        raise _unknown(id)
    _check_may_grant(tx, by)
    if tx.run("exemption.revoke", id=id, by=by, because=because, now=tx.now):
        control_log.append(tx, "exemption.revoked", by, {"id": id, "because": because})
    return get(tx, id)


def _check_may_grant(tx: StoreTransaction, by: str) -> None:
    """In a store with principals, those who decide approvals also lift rules; in a store without, every user may."""
    if not principal.is_governed(tx):
        return
    who = principal.voter(tx, tx.identity or None, by).principal
    if who is None or not DECIDING & set(who.roles):
        raise IllegalMove(
            f"{by if who is None else who.name} may not grant or revoke exemptions.",
            hint="A principal with the role owner or approver may; `perdure principals` lists them.",
        )


def use(tx: StoreTransaction, uid: str, effect_id: str, ids: Sequence[str], *, over: bool = False) -> None:
    """Use exemptions for the dispatch of an effect that this transaction records.

    What is `over` cannot be refused any more: the use is recorded, and counted while there is a use left.
    """
    for id in sorted(ids):
        if not tx.run("exemption.insert_use", uid=uid, effect_id=effect_id, id=id, now=tx.now):
            continue  # an earlier attempt of this effect has used it
        if not tx.run("exemption.count_use", id=id, now=tx.now) and not over:
            raise PolicyChanged(f"The exemption {id} has ended or is used up; nothing was dispatched.")


def covering(
    tx: StoreTransaction, rules: Sequence[str], scope: ExemptionScope, effect_id: str
) -> tuple[Exemption, ...] | None:
    """Exemptions that lift all of these rules for a call; None if one of the rules is not lifted."""
    found = lifting(tx, [(rule, "any") for rule in rules], scope, effect_id)
    return tuple(found[rule] for rule in rules) if len(found) == len(set(rules)) else None


def lifting(
    tx: StoreTransaction, rules: Sequence[tuple[str, Grantor]], scope: ExemptionScope, effect_id: str
) -> dict[str, Exemption]:
    """The exemptions that lift these rules for a call, by rule; those that nothing lifts are left out.

    Each rule comes with who must have lifted it: `any` also by an approval that is remembered, `given` only for the
    rule itself, `owner` by an owner who did not request the session. What the effect has used already covers it, also
    if it has ended since.
    """
    uid, found = scope.session_uid or "", {}
    used = map(Exemption.from_row, tx.all("exemption.used_by", uid=uid, effect_id=effect_id, limit=MANY))
    kept = {one.rule: one for one in used}
    for rule, grantor in rules:
        one = kept.get(rule)
        if one is None or not _may_lift(tx, one, grantor, uid):
            rows = tx.all(
                "exemption.covering",
                rule=rule, uid=uid, repository=scope.repository, owner=scope.owner, tool=scope.tool,
                intent_digest=scope.intent_digest, now=tx.now, given=None if grantor == "any" else "yes",
                limit=MANY if grantor == "owner" else 1,
            )  # fmt: skip
            one = next((each for each in map(Exemption.from_row, rows) if _may_lift(tx, each, grantor, uid)), None)
        if one is not None:
            found[rule] = one
    return found


def _may_lift(tx: StoreTransaction, one: Exemption, grantor: Grantor, uid: str) -> bool:
    """Whether who granted an exemption may lift what it is about to lift. Without principals, every user may."""
    if grantor == "any":
        return True
    if one.approval_id is not None:
        return False
    return grantor == "given" or not principal.is_governed(tx) or is_independent_owner(tx, one.grantor, uid)


def is_independent_owner(tx: StoreTransaction, identity: str | None, uid: str | None) -> bool:
    """Whether an identity is an owner now, and none of those who requested a session."""
    who = principal.of_identity(tx, identity)
    if who is None or Role.OWNER not in who.roles:
        return False
    return uid is None or not {identity, who.uid} & set(requester.requesters(tx, uid))


def said(one: Exemption) -> dict[str, Any]:
    """An exemption as the logs show it."""
    hidden = {"move_id", "used", "revoked_at", "revoked_by", "revoked_because"}
    return {key: value for key, value in one.to_dict().items() if value is not None and key not in hidden}


def get(tx: StoreTransaction, id: str) -> Exemption:
    row = tx.one("exemption.get", id=id)
    if row is None:
        raise _unknown(id)
    return Exemption.from_row(row)


def find(tx: StoreTransaction, name: str) -> Exemption:
    """One exemption by its id, or by a unique prefix of it."""
    rows = tx.all("exemption.by_id", prefix=name, beyond=name + "\U0010ffff", limit=2) if name else []
    if not rows:
        raise _unknown(name)
    found = list(map(Exemption.from_row, rows))
    if len(found) > 1 and found[0].id != name:
        raise Conflict(f"Several exemptions begin with {name!r}.", hint="Give more characters.")
    return found[0]


def _unknown(name: str) -> NotFound:
    return NotFound(f"There is no exemption {name!r}.", hint="`perdure exemptions` lists them.")


def listing(
    tx: StoreTransaction, *, uid: str | None = None, rule: str | None = None, active: bool = False, limit: int = 1000
) -> list[Exemption]:
    """Exemptions, the newest first."""
    at = tx.now if active else None
    return [Exemption.from_row(row) for row in tx.all("exemption.list", uid=uid, rule=rule, at_now=at, limit=limit)]


def uses(tx: StoreTransaction, id: str, *, limit: int = 1000) -> list[ExemptionUse]:
    """The effects that used an exemption, the newest first."""
    return [ExemptionUse.from_row(row) for row in tx.all("exemption.uses", id=id, limit=limit)]
