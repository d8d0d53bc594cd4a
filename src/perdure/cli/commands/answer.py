"""`perdure answer`: the answer to a question that a program asked with `s.ask`."""

from __future__ import annotations

import click

from perdure.cli.options.of_session import session_option
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe, short
from perdure.cli.text.waits import continue_line, root_session
from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import Conflict, NotFound
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import session as sessions
from perdure.store.moves import wait as waits

MANY = 10_000


@command
@click.argument("wait")
@click.argument("text")
@session_option
@by_option
def answer(shell: Shell, wait: str, text: str, session: str | None) -> None:
    """Answer a question that a session asked.

    WAIT is the id of the question, or the id of a session that has asked one question.
    """

    async def work(runtime: Runtime) -> tuple[Wait, str, SessionRecord]:
        asked, name, root = await runtime.store.read(_find, wait, of=session)
        given = await runtime.answer(asked.id, text, session=asked.session_uid, by=shell.by)
        return given, name, root

    given, name, root = run_with_runtime(shell, work)
    if shell.json:
        shell.echo_json(given)
    else:
        shell.echo(f"{safe(shell.by)} answered {safe(given.id)} of session {safe(name)}: {short(text)}")
        shell.echo(continue_line(shell, root))


def _find(tx: StoreTransaction, name: str, of: str | None) -> tuple[Wait, str, SessionRecord]:
    """A question, the id of its session, and the session to resume."""
    asked = find_question(tx, name) if of is None else waits.get(tx, sessions.find(tx, of).uid, name)
    return asked, sessions.get(tx, asked.session_uid).id, root_session(tx, asked.session_uid)


def find_question(tx: StoreTransaction, name: str) -> Wait:
    """An open question by its id, by a prefix of it, or by its session."""
    unknown = NotFound(
        f"There is no question {name!r}.", hint="`perdure ls --waiting-for input` lists the sessions that asked one."
    )
    if not name:
        raise unknown
    found = [one for one in waits.open_waits(tx, kind="input", limit=MANY) if one.id.startswith(name)]
    if not found:
        try:
            return waits.find(tx, name)  # answered already, or not a question: the answer is refused with the reason
        except NotFound:
            pass
        try:
            found = waits.open_of_kind(tx, sessions.find(tx, name).uid, WaitKind.INPUT)
        except NotFound:
            raise unknown from None
    if not found:
        raise NotFound(f"Session {name!r} has asked no question.", hint="`perdure show` shows what it waits for.")
    if len(found) > 1:
        names = ", ".join(one.id for one in found[:5])
        raise Conflict(f"{name!r} matches several questions: {names}.", hint="Give the id of the question.")
    return found[0]
