"""What `approve` and `deny` share: one person's vote on one exact intent."""

from __future__ import annotations

from typing import Literal

from perdure.cli.commands.effects import shown
from perdure.cli.shell import Shell
from perdure.cli.store_access import acting, reading
from perdure.cli.text.plain import intent, safe
from perdure.cli.text.waits import top_of
from perdure.store.moves import approval, effect, session


def vote(shell: Shell, id: str, because: str, decision: Literal["approve", "deny"]) -> None:
    """Vote, and say what that decided."""
    with reading(shell) as tx:
        asked = approval.find(tx, id)
        planned = shown(shell, effect.get(tx, asked.session_uid, asked.effect_id))
        name, top = session.get(tx, asked.session_uid).id, top_of(tx, asked.session_uid)
    voted = acting(shell, lambda runtime: getattr(runtime, decision)(asked.id, by=shell.by, because=because))
    if shell.json:
        shell.emit(voted)
        return
    what = f"{safe(voted.id)}, {intent(planned.tool, planned.intent)} in session {safe(name)}"
    if voted.decision is None:
        shell.say(f"{safe(shell.by)} approved {what}.", f"It needs {voted.quorum} votes, and others must add theirs.")
    else:
        shell.say(
            f"{safe(shell.by)} {'approved' if decision == 'approve' else 'denied'} {what}: it is {voted.decision}."
        )
        shell.say(f"`{shell.again('resume', top, app=True)}` lets it go on, unless a worker does.")
