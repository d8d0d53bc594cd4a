"""The store's policy as people see it: set, show, compare, explain, freeze, thaw."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from difflib import unified_diff
from typing import Any, Literal

import msgspec

from perdure.domain.policy import PolicyDocument, parse, shipped, shipped_text
from perdure.domain.policy_version import PolicyVersion
from perdure.errors import ConfigError, Damaged
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.policy.active_policy import document_of, state_in
from perdure.runtime.policy.call_facts import NoSession
from perdure.runtime.policy.recorded_calls import (
    PolicyCheck,
    PolicyExplanation,
    call_explained,
    differences,
    effect_explained,
    explained,
    supposed_site,
)
from perdure.runtime.policy.repository_policy import recorded
from perdure.runtime.queries import Queries
from perdure.runtime.run.large_values import Values
from perdure.store.move import StoreTransaction
from perdure.store.moves import policy
from perdure.store.moves import session as sessions
from perdure.store.store import Store

SHIPPED = "shipped"  # who set the policy of a store in which none was set


class PolicyView(msgspec.Struct, frozen=True):
    """A version of the policy, and whether it is in force. Version 0 is the policy that ships.

    `error` says why it cannot be used now: it is frozen, or this process cannot read it.
    """

    version: int
    source: str
    digest: str | None
    activated_by: str
    reason: str
    activated_at: int | None
    is_active: bool
    frozen_at: int | None = None
    frozen_by: str | None = None
    frozen_because: str | None = None
    error: str | None = None


class Policies:
    """The policy of a store. `by` is the name that is shown; who changes it is authenticated."""

    def __init__(self, store: Store, queries: Queries, values: Values, by: str) -> None:
        self._store = store
        self._queries = queries
        self._values = values
        self._by = by

    async def set_policy(self, source: str, *, because: str, by: str | None = None) -> PolicyVersion:
        """Make a text the policy of the store, for every process. It is refused if one of its examples fails."""
        parse(source)
        return await self._store.write(policy.activate(source, by=by or self._by, because=because))

    async def get_policy(self, at: int | datetime | None = None) -> PolicyView:
        """The active policy, or the one of a version or a time; version 0 is the one that ships."""
        return await self._store.read(view_of, at)

    async def check_policy(self, source: str, *, against: str | float | None = None) -> PolicyCheck:
        """Read a policy and judge its examples; with `against="7d"`, also the effects of that time, as it would."""
        document = parse(source)
        examples = sum(len(rule.examples) for rule in document.rules)
        if against is None:
            return PolicyCheck(len(document.rules), examples, len(document.budgets))
        since = self._store.clock.now() - microseconds(against)
        judged, found = await differences(self._queries.effects(since=since), document, self._store.read)
        return PolicyCheck(len(document.rules), examples, len(document.budgets), judged, tuple(found))

    async def explain_policy(
        self, effect: str | None = None, *, tool: str | None = None, arguments: Mapping[str, Any] | None = None,
        action: Literal["do", "undo", "model"] = "do", session: str | None = None, sandbox: str | None = None,
        network: bool | None = None, origins: Collection[str] = (), cost: float | None = None,
    ) -> PolicyExplanation:  # fmt: skip
        """How the active policy judges an effect, or a call where it would run, with every rule that matches."""
        site = supposed_site(sandbox, network, origins, cost)
        if (effect is None) == (tool is None and action != "model"):
            raise ConfigError(
                "Name an effect, or a tool.", hint="`perdure policy explain --tool NAME --arg key=value`."
            )
        if effect is not None and site:
            raise ConfigError("The circumstances of an effect are on record.", hint="Give them with a tool.")
        document, version = await self._store.read(_active_document)
        if effect is not None:
            return await self._store.read(effect_explained, effect, document, version, self._values.shown)
        if session is None:
            facts = call_explained(tool, arguments or {}, NoSession(), action)
            return explained(document, version, msgspec.structs.replace(facts, **site))
        found = await self._store.read(sessions.find, session)
        facts = msgspec.structs.replace(call_explained(tool, arguments or {}, found, action), **site)
        return explained(document, version, facts, await self._store.read(recorded, found))

    async def policy_versions(self) -> list[PolicyVersion]:
        """Every version of the policy, the newest first."""
        return await self._store.read(policy.versions)

    async def freeze_policy(self, *, because: str, by: str | None = None) -> PolicyView:
        """Stop every dispatch in every process. What has begun continues; the next call waits until the thaw."""
        await self._store.write(policy.freeze(by=by or self._by, because=because))
        return await self.get_policy()

    async def thaw_policy(self, *, because: str | None = None, by: str | None = None) -> PolicyView:
        """Allow dispatches again, under the active version; sessions that waited continue."""
        await self._store.write(policy.thaw(by=by or self._by, because=because))
        return await self.get_policy()


def view_of(tx: StoreTransaction, at: int | datetime | None = None) -> PolicyView:
    """A version of the policy: the active one, one by its number, or the one of a time."""
    now, newest = policy.fence(tx), policy.newest(tx)
    if at is None:
        found = newest
    elif isinstance(at, datetime):
        found = policy.active_at(tx, int(at.timestamp() * 1_000_000))
    else:
        found = None if at == 0 else policy.get(tx, at)
    is_active = (0 if found is None else found.version) == now.version
    frozen = (now.frozen_at, now.frozen_by, now.frozen_because) if is_active else (None, None, None)
    error = state_in(tx).error if is_active else None
    if found is None:
        why = "No policy was set; this one ships with Perdure."
        return PolicyView(0, shipped_text(), None, SHIPPED, why, None, is_active, *frozen, error)
    return PolicyView(
        found.version, found.source, found.digest, found.activated_by, found.reason, found.activated_at, is_active,
        *frozen, error,
    )  # fmt: skip


def _active_document(tx: StoreTransaction) -> tuple[PolicyDocument, int]:
    """The document of the active version, also while it is frozen."""
    newest = policy.newest(tx)
    if newest is None:
        return shipped(), 0
    document, error = document_of(newest)
    if document is None:
        raise Damaged(f"{error}", hint="Set one that can be read: `perdure policy set`.")
    return document, newest.version


def difference(before: PolicyView, after: PolicyView) -> list[str]:
    """The lines of a unified diff between two versions. A text that is not in the store has the version -1."""
    old, new = ("the file" if one.version < 0 else f"version {one.version}" for one in (before, after))
    return list(unified_diff(before.source.splitlines(), after.source.splitlines(), old, new, lineterm=""))
