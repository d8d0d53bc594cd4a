"""All pages and actions of the console."""

from __future__ import annotations

from perdure.console.actions import bulk_change, decisions, session_control
from perdure.console.page import ConsolePage
from perdure.console.pages import (
    audit,
    branches,
    doctor,
    files,
    fleet,
    history,
    inbox,
    ledger,
    policy,
    session,
    sessions,
    usage,
)

TABLE: tuple[ConsolePage, ...] = (
    *inbox.PAGES,
    *sessions.PAGES,
    *bulk_change.PAGES,
    *session.PAGES,
    *history.PAGES,
    *files.PAGES,
    *branches.PAGES,
    *usage.PAGES,
    *ledger.PAGES,
    *fleet.PAGES,
    *doctor.PAGES,
    *policy.PAGES,
    *audit.PAGES,
    *decisions.PAGES,
    *session_control.PAGES,
)
