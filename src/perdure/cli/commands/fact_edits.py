"""`perdure facts set`, `forget` and `verify`: a person writes facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand

if TYPE_CHECKING:
    from perdure.domain.fact import Fact

F = TypeVar("F", bound=Callable[..., Any])


def place_options(function: F) -> F:
    """The options that name where a fact belongs. Exactly one of them is needed."""
    options = [
        click.option("--scope", metavar="NAME", help="A name that sessions share, such as customer:42."),
        click.option("--session", metavar="ID", help="One session; its log records the change."),
        click.option("--repo", metavar="DIR", help="Every session of this repository."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@command
@click.argument("key")
@click.argument("value")
@place_options
@click.option("--as-json", is_flag=True, help="VALUE is JSON. Otherwise it is text.")
@click.option("--expected", type=click.IntRange(0), metavar="N", help="Fail unless the fact has version N (0: none).")
@click.option("--stale-after", metavar="DURATION", help='When it must be verified again: "12h", "7d".')
@click.option("--verify", metavar="TEXT", help="How to verify it.")
@by_option
def set_(
    shell: Shell, key: str, value: str, scope: str | None, session: str | None, repo: str | None, as_json: bool,
    expected: int | None, stale_after: str | None, verify: str | None,
) -> None:  # fmt: skip
    """Write a fact, in place of an older version of it."""
    from perdure.cli.store_access import run_with_runtime

    given = _parsed(value) if as_json else value
    place: dict[str, Any] = {"scope": scope, "session": session, "repository": repo}
    about: dict[str, Any] = {"expected": expected, "stale_after": stale_after, "verify": verify}
    made = run_with_runtime(shell, lambda runtime: runtime.set_fact(key, given, by=shell.by, **place, **about))
    _report(shell, made, f"is recorded, version {made.version}")


@command
@click.argument("key")
@place_options
@by_option
def forget(shell: Shell, key: str, scope: str | None, session: str | None, repo: str | None) -> None:
    """Forget a fact."""
    from perdure.cli.store_access import run_with_runtime

    place: dict[str, Any] = {"scope": scope, "session": session, "repository": repo}
    was = run_with_runtime(shell, lambda runtime: runtime.forget_fact(key, by=shell.by, **place))
    _report(shell, was, f"is forgotten; it had version {was.version}")


@command
@click.argument("key")
@place_options
@by_option
def verify(shell: Shell, key: str, scope: str | None, session: str | None, repo: str | None) -> None:
    """Record that you checked a fact and that it still holds."""
    from perdure.cli.store_access import run_with_runtime

    place: dict[str, Any] = {"scope": scope, "session": session, "repository": repo}
    made = run_with_runtime(shell, lambda runtime: runtime.verify_fact(key, by=shell.by, **place))
    _report(shell, made, f"is verified, version {made.version}")


def extend(listing: click.Command) -> ListingCommand:
    """The listing of facts with its subcommands."""
    return ListingCommand(listing, {"set": set_, "forget": forget, "verify": verify})


def _report(shell: Shell, made: Fact, what: str) -> None:
    from perdure.cli.text.plain import safe

    if shell.json:
        shell.echo_json(made)
    else:
        shell.echo(f"The fact {safe(made.key)} of {safe(made.scope)} {what}.")


def _parsed(text: str) -> Any:
    import msgspec

    from perdure.errors import ConfigError

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ConfigError(f"VALUE is not JSON: {error}.", hint="Leave --as-json out to store it as text.") from None
