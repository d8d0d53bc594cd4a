"""`perdure token`: the tokens with which people and programs use the service."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand
from perdure.domain.token import NewToken

HEADINGS = ("token", "principal", "for", "scopes~", "state", "expires", "last used")
EXPIRES = click.option(
    "--expires", metavar="DURATION", default="90d", show_default=True, help='When it ends: "8h", "90d", never.'
)


@command
def ls(shell: Shell) -> None:
    """List the tokens of the service, the newest first. Their secrets are not stored."""
    from perdure.cli.store_access import read_list
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe
    from perdure.clock import format_time
    from perdure.store.moves import token

    found, _ = read_list(shell, token.listing, lambda runtime: runtime.tokens())
    if shell.json:
        for one in found:
            shell.echo_json(one)
        return
    if not found:
        shell.echo("There are no tokens.")
        return
    rows = [
        [one.id, safe(one.principal), safe(one.label), safe(" ".join(one.scopes)) or "none", one.state,
         "never" if one.expires_at is None else format_time(one.expires_at),
         "never" if one.used_at is None else format_time(one.used_at)]
        for one in found
    ]  # fmt: skip
    shell.echo(*grid(HEADINGS, rows, width=shell.width))


@command
@click.argument("principal")
@click.option(
    "--scope", "scopes", metavar="SCOPE", multiple=True,
    help="What it may touch: *, queue:NAME or repository:NAME; NAME may end with *. Repeatable; without one: nothing.",
)  # fmt: skip
@click.option("--label", metavar="TEXT", default="", help="What it is for.")
@EXPIRES
@by_option
def create(shell: Shell, principal: str, scopes: tuple[str, ...], label: str, expires: str) -> None:
    """Create a token of a principal, and show it once.

    The token has the roles of its principal, for the sessions and queues that its scopes name. Only an owner creates
    tokens.
    """
    from perdure.cli.store_access import run_with_runtime

    made = run_with_runtime(
        shell,
        lambda runtime: runtime.create_token(principal, scopes=scopes, label=label, expires=expires, by=shell.by),
        create=True,
    )
    _show(shell, made)
    if not scopes:
        shell.note("note: The token has no scope, so it may do nothing. Create another with --scope.")


@command
@click.argument("token")
@click.option(
    "--overlap", metavar="DURATION", default="24h", show_default=True, help="How long the old token stays valid."
)
@EXPIRES
@by_option
def rotate(shell: Shell, token: str, overlap: str, expires: str) -> None:
    """Replace a token by a new one with the same scopes, and show it once."""
    from perdure.cli.store_access import run_with_runtime

    made = run_with_runtime(
        shell, lambda runtime: runtime.rotate_token(token, overlap=overlap, expires=expires, by=shell.by)
    )
    _show(shell, made)


@command
@click.argument("token")
@by_option
def revoke(shell: Shell, token: str) -> None:
    """Revoke a token, and those that it was rotated to. The service refuses them from now on, and ends their streams
    within seconds.
    """
    from perdure.cli.store_access import run_with_runtime

    was = run_with_runtime(shell, lambda runtime: runtime.revoke_token(token, by=shell.by))
    if shell.json:
        shell.echo_json(was)
    else:
        also = f", and {len(was.also_revoked)} that it was rotated to" if was.also_revoked else ""
        shell.echo(f"Token {was.id} is revoked{also}.")


def _show(shell: Shell, made: NewToken) -> None:
    if shell.json:
        shell.echo_json(made)
        return
    shell.echo_bytes([f"{made.token}\n".encode()])  # not masked: this is the only time that it is shown
    shell.note(f"Token {made.view.id} of {made.view.principal}. It is shown only now; keep it like a password.")


token = ListingCommand(ls, {"ls": ls, "create": create, "rotate": rotate, "revoke": revoke})
token.name = "token"
