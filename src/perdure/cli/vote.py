"""What `approve` and `deny` share: the vote of one person on one exact call."""

from __future__ import annotations

from typing import Literal

from perdure.cli.shell import Shell
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import intent, safe
from perdure.cli.text.waits import continue_line, root_session_id
from perdure.domain.approval import Approval
from perdure.domain.effect import Effect
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, effect, session


def vote(shell: Shell, id: str, because: str, decision: Literal["approve", "deny"]) -> None:
    """Vote, and print the result."""

    async def work(runtime: Runtime) -> tuple[Approval, Effect, str, str]:
        asked, planned, name, root = await runtime.store.read(_find, id)
        cast = runtime.approve if decision == "approve" else runtime.deny
        return await cast(asked, by=shell.by, because=because), runtime.values.whole(planned), name, root

    voted, planned, name, root = run_with_runtime(shell, work)
    if shell.json:
        shell.echo_json(voted)
        return
    what = f"{safe(voted.id)}, {intent(planned.tool, planned.intent)} in session {safe(name)}"
    if voted.decision is None:
        shell.echo(f"{safe(shell.by)} approved {what}.", f"It needs {voted.quorum} votes; other people must vote too.")
    else:
        verb = "approved" if decision == "approve" else "denied"
        shell.echo(f"{safe(shell.by)} {verb} {what}: it is {voted.decision}.", continue_line(shell, root))


def _find(tx: StoreTransaction, id: str) -> tuple[str, Effect, str, str]:
    """The id of an approval, its effect, the id of its session, and that of the session to resume."""
    asked = approval.find(tx, id)
    planned = effect.get(tx, asked.session_uid, asked.effect_id)
    return asked.id, planned, session.get(tx, asked.session_uid).id, root_session_id(tx, asked.session_uid)
