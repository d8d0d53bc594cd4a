"""`perdure settle`: a person says what came of an effect in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, by_option, command

if TYPE_CHECKING:
    from perdure.domain.effect import Effect


@command
@click.argument("effect")
@click.option("--happened", "verdict", flag_value="happened", help="It was done.")
@click.option("--absent", "verdict", flag_value="absent", help="It was not done; the session does it again, once.")
@click.option("--abandon", "verdict", flag_value="abandon", help="Nobody will know; the program gets an error.")
@click.option("--because", metavar="TEXT", required=True, help="What you looked at.")
@click.option("--reference", metavar="TEXT", help="What names it outside: an address, a number.")
@click.option("--result", metavar="JSON", help="What the tool would have returned, with --happened.")
@by_option
def settle(
    shell: Shell, effect: str, verdict: str | None, because: str, reference: str | None, result: str | None
) -> None:
    """Say what came of an effect in doubt, and why you know.

    Look at the outside system first: the ledger believes you.
    """
    from perdure.cli.store_access import read_store, run_with_runtime
    from perdure.cli.text.waits import root_session_id
    from perdure.errors import ConfigError
    from perdure.store.moves import effect as effects
    from perdure.store.moves import session

    if verdict is None:
        raise ConfigError("Say what came of it.", hint="Give --happened, --absent or --abandon.")
    if verdict != "happened" and (result is not None or reference is not None):
        raise ConfigError(f"--result and --reference belong to --happened, not to --{verdict}.")
    given = None if result is None else parsed(result)
    shell.load()
    with read_store(shell) as tx:
        found = effects.find(tx, effect)
        name, top = session.get(tx, found.session_uid).id, root_session_id(tx, found.session_uid)
    if (found.verdict, found.verdict_by) != (verdict, shell.by):  # else it is the same word again
        check(found, asks_result=verdict == "happened" and result is None)
    settled = run_with_runtime(
        shell,
        lambda runtime: runtime.settle(
            found.id, str(verdict), by=shell.by, because=because, reference=reference, result=given
        ),
    )
    if shell.json:
        shell.echo_json(settled)
    else:
        shell.echo(f"{settled.tool} {settled.id} of session {name} is {settled.state}: {shell.by} says {verdict}.")
        shell.echo(f"`{shell.suggest('resume', top, app=True)}` lets it go on, unless a worker does.")


def parsed(text: str) -> Any:
    import msgspec

    from perdure.errors import ConfigError

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ConfigError(f"--result is not JSON: {error}.", hint="Text is JSON with its quotes: '\"done\"'.") from None


def check(found: Effect, *, asks_result: bool) -> None:
    """A verdict is final: without the tool nobody can tell whether it may have returned nothing."""
    from perdure.cli.commands.effects import is_in_doubt
    from perdure.errors import ConfigError, IllegalMove
    from perdure.runtime.definitions.tool import TOOLS

    if not is_in_doubt(found):
        raise IllegalMove(
            f"Effect {found.id} is {found.state} and not in doubt; there is nothing to settle.",
            hint="`perdure effects --in-doubt` lists what is.",
        )
    if asks_result and found.tool not in TOOLS:
        raise ConfigError(
            f"The tool {found.tool} is not loaded, so nobody can tell whether it returns something.",
            hint="Name its module with --app, or give what it returned with --result (null for nothing).",
        )
