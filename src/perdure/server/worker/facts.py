"""Which facts a session may write and read through a worker: its own, and those of its repository.

Standing orders and facts of other sessions and repositories are read by other agents, so they need a token for the
whole store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from perdure.domain.caller import Caller, Place, Verb
from perdure.domain.fact import private_scope, repository_scope
from perdure.domain.session import SessionRecord

__all__ = ["Place", "check_change", "check_scope"]


class Checks(Protocol):
    """What decides for one caller."""

    caller: Caller

    def need(self, allowed: bool, why: str) -> None: ...


def check_change(on: Checks, session: SessionRecord, kind: str, arguments: Mapping[str, Any]) -> None:
    """Refuse a change of the record that reaches beyond the session."""
    if kind == "fact.remember":
        check_scope(on, session, arguments.get("scope"))


def check_scope(on: Checks, session: SessionRecord, scope: Any) -> None:
    if scope is None or on.caller.may(Verb.WORK):
        return
    own = {private_scope(session.uid)}
    own |= {repository_scope(session.repository)} if session.repository is not None else set()
    on.need(scope in own, f"the facts of {scope!s:.80} are not of this session")
