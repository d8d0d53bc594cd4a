"""Exemptions as people see them: grant, list, show, revoke."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

from perdure.domain.exemption import (
    AGENT,
    BUDGET,
    DEFAULT,
    OF_REPOSITORY,
    UNPARSED,
    Exemption,
    ExemptionScope,
    ExemptionUse,
)
from perdure.errors import ConfigError, IllegalMove, NotFound
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.ledger.policy import CODE
from perdure.runtime.policy.active_policy import state_in
from perdure.runtime.start.repository_identity import identify
from perdure.store.move import StoreTransaction
from perdure.store.moves import exemption, principal
from perdure.store.moves import session as sessions
from perdure.store.store import Store

NEVER = "never"
LASTS = "24h"  # unless the person who grants it says otherwise


class Exemptions:
    """The exemptions of a store. `by` is the name that is shown; who grants is authenticated."""

    def __init__(self, store: Store, by: str) -> None:
        self._store = store
        self._by = by

    async def grant_exemption(
        self, rule: str, *, because: str, session: str | None = None, repository: str | Path | None = None,
        owner: str | None = None, tool: str | None = None, expires: str | float = LASTS, uses: int | None = None,
        by: str | None = None,
    ) -> Exemption:  # fmt: skip
        """Lift a rule of the policy for what is named, of which all must fit; `expires` may be "never" for a session.

        It lifts no gate of a tool and no other rule. `uses` is how many effects may use it.
        """
        uid = None if session is None else (await self._store.read(sessions.find, session)).uid
        scope = ExemptionScope(session_uid=uid, repository=repository_name(repository), owner=owner, tool=tool)
        if expires == NEVER and uid is None:
            raise ConfigError(
                "An exemption that never expires must be for one session.", hint='Give a duration, such as "7d".'
            )
        ends = None if expires == NEVER else self._store.clock.now() + microseconds(expires)
        move = exemption.grant(
            rule, scope, by=by or self._by, because=because, expires_at=ends, uses=uses,
            check=lambda tx: _check_rule(tx, rule, uid),
        )  # fmt: skip
        return await self._store.write(move)

    async def revoke_exemption(self, id: str, *, because: str, by: str | None = None) -> Exemption:
        """Revoke an exemption: it covers nothing new from now on."""
        found = await self._store.read(exemption.find, id)
        return await self._store.write(exemption.revoke(found.id, by=by or self._by, because=because))

    async def exemption(self, id: str) -> Exemption:
        """One exemption, by its id or a unique prefix of it."""
        return await self._store.read(exemption.find, id)

    async def exemptions(
        self, *, session: str | None = None, rule: str | None = None, active: bool = False
    ) -> AsyncIterator[Exemption]:
        """Exemptions from rules of the policy, the newest first; `active`: only those that still cover something."""
        uid = None if session is None else (await self._store.read(sessions.find, session)).uid
        for one in await self._store.read(exemption.listing, uid=uid, rule=rule, active=active, limit=exemption.MANY):
            yield one

    async def exemption_uses(self, id: str) -> AsyncIterator[ExemptionUse]:
        """The effects that used an exemption, the newest first."""
        found = await self._store.read(exemption.find, id)
        for one in await self._store.read(exemption.uses, found.id, limit=exemption.MANY):
            yield one


def _check_rule(tx: StoreTransaction, rule: str, uid: str | None) -> None:
    """Refuse an exemption that would lift nothing: from a rule that is not there, or by who may not lift it."""
    document = state_in(tx).document
    if document is None or rule == AGENT or rule.startswith(OF_REPOSITORY):
        return  # an agent or a repository has the rule
    strict = {one.name: one.answer == "deny" or one.gate is not None for one in document.rules}
    strict |= {f"{BUDGET}{one.name}": one.answer == "stop" for one in document.budgets}
    strict |= {DEFAULT: "deny" in (document.default, document.default_command), UNPARSED: False}
    if rule not in strict:
        raise _unknown_rule(rule, list(strict))
    if strict[rule] and principal.is_governed(tx) and not exemption.is_independent_owner(tx, tx.identity, uid):
        raise IllegalMove(
            f"The rule {rule} denies, or says who decides: only an owner who did not request the session may lift it.",
            hint="`perdure principals` lists the owners.",
        )


def _unknown_rule(rule: str, known: list[str]) -> NotFound:
    if rule == CODE or rule.startswith("gate:"):
        return NotFound(
            f"No exemption lifts the rule {rule}.", hint="A gate of a tool and a function in code always decide."
        )
    from difflib import get_close_matches  # late: rarely needed

    near = get_close_matches(rule, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else "`perdure policy` shows the rules and budgets."
    return NotFound(f"The policy has no rule {rule!r:.80}.", hint=hint)


def repository_name(repository: str | Path | None) -> str | None:
    """A repository as exemptions name it: by its remote or first commit, if a folder was given."""
    if repository is None:
        return None
    if not os.path.isdir(repository):  # a name may be no possible path
        return str(repository)
    if (found := identify(Path(repository))) is None:
        raise ConfigError(f"{repository} is not a repository with a remote or a commit.")
    return found
