"""`perdure answer`: what a program asked with `s.ask`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, by_option, command

if TYPE_CHECKING:
    from perdure.domain.wait import Wait
    from perdure.store.move import StoreTransaction

MANY = 10_000


@command
@click.argument("wait")
@click.argument("text")
@by_option
def answer(shell: Shell, wait: str, text: str) -> None:
    """Answer a question that a session asked.

    WAIT is the question's id, or the id of a session that has asked one question.
    """
    from perdure.cli.store_access import read_store, run_with_runtime
    from perdure.cli.text.plain import safe, short
    from perdure.cli.text.waits import root_session_id
    from perdure.store.moves import session

    with read_store(shell) as tx:
        asked = find(tx, wait)
        name, top = session.get(tx, asked.session_uid).id, root_session_id(tx, asked.session_uid)
    given = run_with_runtime(shell, lambda runtime: runtime.answer(asked.id, text, by=shell.by))
    if shell.json:
        shell.echo_json(given)
    else:
        shell.echo(f"{safe(shell.by)} answered {safe(asked.id)} of session {safe(name)}: {short(text)}")
        shell.echo(f"`{shell.suggest('resume', top, app=True)}` lets it go on, unless a worker does.")


def find(tx: StoreTransaction, name: str) -> Wait:
    """An open question by its id, by a beginning of it, or by its session."""
    from perdure.domain.wait import WaitKind
    from perdure.errors import Conflict, NotFound
    from perdure.store.moves import session
    from perdure.store.moves import wait as waits

    unknown = NotFound(
        f"Nobody asked anything called {name!r}.", hint="`perdure ls --waiting-for input` lists who did."
    )
    if not name:
        raise unknown
    found = [one for one in waits.open_waits(tx, kind="input", limit=MANY) if one.id.startswith(name)]
    if not found:
        try:
            return waits.find(tx, name)  # resolved already, or not a question: the answer is refused with the reason
        except NotFound:
            pass
        try:
            found = waits.open_of_kind(tx, session.find(tx, name).uid, WaitKind.INPUT)
        except NotFound:
            raise unknown from None
    if not found:
        raise NotFound(f"Session {name!r} has not asked anything.", hint="`perdure show` says what it waits for.")
    if len(found) > 1:
        names = ", ".join(one.id for one in found[:5])
        raise Conflict(f"{name!r} fits several questions: {names}.", hint="Give the question's id.")
    return found[0]
