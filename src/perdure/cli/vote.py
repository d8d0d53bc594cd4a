"""What `approve` and `deny` share: one person's vote on one exact intent."""

from __future__ import annotations

from typing import Literal

from perdure.cli.commands.effects import shown
from perdure.cli.shell import Shell
from perdure.cli.store_access import read_store, run_with_runtime
from perdure.cli.text.plain import intent, safe
from perdure.cli.text.waits import root_session_id
from perdure.store.moves import approval, effect, session


def vote(shell: Shell, id: str, because: str, decision: Literal["approve", "deny"]) -> None:
    """Vote, and say what that decided."""
    with read_store(shell) as tx:
        asked = approval.find(tx, id)
        planned = shown(shell, effect.get(tx, asked.session_uid, asked.effect_id))
        name, top = session.get(tx, asked.session_uid).id, root_session_id(tx, asked.session_uid)
    voted = run_with_runtime(shell, lambda runtime: getattr(runtime, decision)(asked.id, by=shell.by, because=because))
    if shell.json:
        shell.echo_json(voted)
        return
    what = f"{safe(voted.id)}, {intent(planned.tool, planned.intent)} in session {safe(name)}"
    if voted.decision is None:
        shell.echo(f"{safe(shell.by)} approved {what}.", f"It needs {voted.quorum} votes, and others must add theirs.")
    else:
        shell.echo(
            f"{safe(shell.by)} {'approved' if decision == 'approve' else 'denied'} {what}: it is {voted.decision}."
        )
        shell.echo(f"`{shell.suggest('resume', top, app=True)}` lets it go on, unless a worker does.")
