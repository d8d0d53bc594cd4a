"""`perdure approvals ID`: what a person decides about, from the record, and who looked."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.ids import encode
from perdure.store.move import StoreTransaction
from perdure.store.moves import policy
from perdure.store.moves.approval import ApprovalRequest
from perdure.store.moves.approval import request as ask
from perdure.store.moves.effect_input import NewEffect
from perdure.store.moves.lease import acquire
from perdure.store.moves.session import NewSession, create
from perdure.store.store import open_store
from tests.cli.support.terminal import Terminal

DANGER = "echo ok" + " " * 300 + "; rm -rf ~ \u202e\x1b[31m approved already"


@pytest.fixture
def asked(terminal: Terminal) -> str:
    """An agent's call that waits for approval."""
    with open_store(terminal.folder / "perdure.db") as store:
        uid = store.write_now(create(NewSession(id="s", program="p", arguments={}, owner="ada"), by="ada")).uid
        holder = store.write_now(acquire(uid, "w-1", nonce="n", ttl=60_000_000))
        intent = NewEffect(
            id="e-1", position="[0]", generation=0, tool="run_command", replay="escalate", intent_digest="d" * 64,
            intent=encode({"command": DANGER}), idempotency_key="e" * 64, targets='["machine:here"]',
        )  # fmt: skip
        question = ApprovalRequest(
            gate="ops",
            requester="ada",
            requester_may_decide=False,
            quorum=2,
            expires_at=store.clock.now() + 3600_000_000,
        )
        made = store.write_now(ask(holder, intent, question))
    return str(made.approval_id)


def said(terminal: Terminal, id: str) -> dict[str, str]:
    """What is shown, by the name at the start of the line."""
    lines = terminal("approvals", id).out.splitlines()
    return {line[:13].strip(): line[15:] for line in lines if line[:1].strip()}


def test_the_whole_call_and_what_approving_does_are_shown(terminal: Terminal, asked: str) -> None:
    found, shown = said(terminal, asked), terminal("approvals", asked).out
    assert found["approving"].startswith("counts as one of 2 votes that are still missing")
    assert found["may decide"].startswith("an approver or an owner, not the person who requested it, not the owner")
    assert "compares only names" in found["may decide"]
    assert found["targets"] == '["machine:here"]'
    assert found["expires"].startswith("in 59m")
    assert "; rm -rf ~" in shown
    assert not {"\x1b", "\u202e"} & set(shown)
    (row,) = terminal("approvals", "--json").lines
    assert row["approving"] == found["approving"]


def test_who_looked_is_recorded_where_the_policy_asks_for_it(terminal: Terminal, asked: str) -> None:
    assert looks(terminal.folder) == []
    terminal("approvals", asked)
    assert looks(terminal.folder) == []
    with open_store(terminal.folder / "perdure.db") as store:
        store.write_now(policy.activate('default = "allow"\n[log_access]\napproval = true\n', by="ada", because="x"))
    terminal("approvals", asked)
    assert [one[1:] for one in looks(terminal.folder)] == [("approval", asked)]


def looks(folder: Path) -> list[tuple[str, str, str]]:
    def read(tx: StoreTransaction) -> list[tuple[str, str, str]]:
        from tests.store.support.sessions import connection_of

        return list(connection_of(tx).execute("select identity, action, subject from access").fetchall())

    with open_store(folder / "perdure.db") as store:
        return store.read_now(read)
