"""`perdure settle`: the verdict of a person on an effect in doubt."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from perdure.cli.options.of_session import session_option
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.effects import is_in_doubt
from perdure.cli.text.waits import continue_line, root_session
from perdure.domain.effect import Effect
from perdure.domain.literals import VerdictWord
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, IllegalMove
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions


@command
@click.argument("effect")
@click.option("--happened", "verdict", flag_value="happened", help="It was done.")
@click.option("--absent", "verdict", flag_value="absent", help="It was not done; the session does it again, once.")
@click.option(
    "--abandon", "verdict", flag_value="abandon", help="The outcome stays unknown; the program gets an error."
)
@click.option("--because", metavar="TEXT", required=True, help="How you know, recorded in the log.")
@click.option("--reference", metavar="TEXT", help="What identifies it outside: a URL, a number.")
@click.option("--result", metavar="JSON", help="What the tool would have returned, with --happened.")
@session_option
@by_option
def settle(
    shell: Shell, effect: str, verdict: VerdictWord | None, because: str, reference: str | None, result: str | None,
    session: str | None,
) -> None:  # fmt: skip
    """Record the outcome of an effect in doubt, and how you know it.

    Check the outside system first: the verdict is final, and the session continues with it.
    """
    if verdict is None:
        raise ConfigError("The verdict is missing.", hint="Give --happened, --absent or --abandon.")
    if verdict != "happened" and (result is not None or reference is not None):
        raise ConfigError(f"--result and --reference belong to --happened, not to --{verdict}.")
    given = None if result is None else parse_result(result)
    shell.load()

    async def work(runtime: Runtime) -> tuple[Effect, str, SessionRecord]:
        found, name, root = await runtime.store.read(_find, effect, of=session)
        if (found.verdict, found.verdict_by) != (verdict, shell.by):  # else the same verdict is given again
            check_verdict(found, asks_result=verdict == "happened" and result is None)
        settled = await runtime.settle(
            found.id,
            verdict,
            session=found.session_uid,
            by=shell.by,
            because=because,
            reference=reference,
            result=given,
        )
        return settled, name, root

    settled, name, root = run_with_runtime(shell, work)
    if shell.json:
        shell.echo_json(settled)
    else:
        shell.echo(
            f"{settled.tool} {settled.id} of session {name} is {settled.state}: verdict {verdict} by {shell.by}."
        )
        shell.echo(continue_line(shell, root))


def _find(tx: StoreTransaction, id: str, of: str | None) -> tuple[Effect, str, SessionRecord]:
    """The effect, the id of its session, and the session to resume."""
    found = effects.find(tx, id, None if of is None else sessions.find(tx, of).uid)
    return found, sessions.get(tx, found.session_uid).id, root_session(tx, found.session_uid)


def parse_result(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ConfigError(f"--result is not JSON: {error}.", hint="Quote text as JSON: '\"done\"'.") from None


def check_verdict(found: Effect, *, asks_result: bool) -> None:
    """Refuse a verdict that cannot be right. Only the tool tells whether a missing result is valid."""
    if not is_in_doubt(found):
        raise IllegalMove(
            f"Effect {found.id} is {found.state}, not in doubt; there is nothing to settle.",
            hint="`perdure effects --in-doubt` lists the effects in doubt.",
        )
    if asks_result and found.tool not in TOOLS:
        raise ConfigError(
            f"The tool {found.tool} is not loaded, so it is unknown whether it returns a result.",
            hint="Load its module with --app, or give its result with --result (null for none).",
        )
