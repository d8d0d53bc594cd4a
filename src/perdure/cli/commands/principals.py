"""`perdure principals`: the people and programs of the store, with their roles and logins."""

from __future__ import annotations

from typing import Literal

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand
from perdure.domain.principal import PrincipalKind, PrincipalView, Role

HEADINGS = ("principal", "kind", "roles", "logins~", "added by")
ROLES = click.Choice([str(one) for one in Role])
LOGIN = "os:UID, db:ROLE, token:ID or oidc:SUBJECT"


@command
def ls(shell: Shell) -> None:
    """List the people and programs of the store, with their roles and logins.

    Without principals, a store compares only names that users give: it cannot enforce that another person decides, and
    no quorum above one is reached.
    """
    from perdure.cli.store_access import read_list
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe
    from perdure.store.moves import principal

    found, _ = read_list(shell, principal.listing, lambda runtime: runtime.principals())
    if shell.json:
        for one in found:
            shell.echo_json(one)
        return
    if not found:
        shell.echo("There are no principals.")
        return
    rows = [[safe(one.name), one.kind, ", ".join(one.roles) or "none", safe(" ".join(one.logins)) or "none",
             safe(one.added_by)] for one in found]  # fmt: skip
    shell.echo(*grid(HEADINGS, rows, width=shell.width))


@command
@click.argument("name")
@click.option("--role", "roles", type=ROLES, multiple=True, help="What it may do; repeatable.")
@click.option(
    "--login", "logins", metavar="LOGIN", multiple=True, help=f"How it is authenticated: {LOGIN}; repeatable."
)
@click.option("--kind", type=click.Choice([str(one) for one in PrincipalKind]), default="person", show_default=True)
@by_option
def add(shell: Shell, name: str, roles: tuple[str, ...], logins: tuple[str, ...], kind: str) -> None:
    """Add a person or a program.

    The first principal of a store is you, as its owner, with your own login. Later only an owner may add others. All
    logins of one person belong to one principal.
    """
    from perdure.cli.store_access import run_with_runtime

    given: Literal["person", "program"] = "program" if kind == PrincipalKind.PROGRAM else "person"
    made = run_with_runtime(
        shell,
        lambda runtime: runtime.add_principal(name, kind=given, roles=roles, logins=logins, by=shell.by),
        create=True,
    )
    _report(shell, made, "is a principal now")


@command
@click.argument("name")
@click.option("--role", "roles", type=ROLES, multiple=True, help="Its roles from now on; repeatable.")
@click.option("--no-role", is_flag=True, help="Take all roles from it.")
@click.option("--login", "logins", metavar="LOGIN", multiple=True, help=f"One more login: {LOGIN}; repeatable.")
@by_option
def set_(shell: Shell, name: str, roles: tuple[str, ...], no_role: bool, logins: tuple[str, ...]) -> None:
    """Replace the roles of a principal, and add logins. `principals rm NAME --login LOGIN` removes a login."""
    from perdure.cli.store_access import run_with_runtime

    if bool(roles) == no_role and (roles or not logins):
        raise click.UsageError("Give --role, --no-role or --login.")
    wanted = () if no_role else roles or None
    made = run_with_runtime(
        shell, lambda runtime: runtime.set_principal(name, roles=wanted, logins=logins, by=shell.by)
    )
    _report(shell, made, "is changed")


@command
@click.argument("name")
@click.option("--login", metavar="LOGIN", help="Remove only this login.")
@by_option
def rm(shell: Shell, name: str, login: str | None) -> None:
    """Remove a principal, or one of its logins. Its votes on approvals that are not decided count no more."""
    from perdure.cli.store_access import run_with_runtime

    was = run_with_runtime(shell, lambda runtime: runtime.remove_principal(name, login=login, by=shell.by))
    _report(shell, was, "is removed" if login is None else "is changed")


def _report(shell: Shell, one: PrincipalView, what: str) -> None:
    from perdure.cli.text.plain import safe

    if shell.json:
        shell.echo_json(one)
        return
    roles, logins = ", ".join(one.roles) or "none", safe(" ".join(one.logins)) or "none"
    shell.echo(f"{safe(one.name)} {what}. Roles: {roles}. Logins: {logins}.")


principals = ListingCommand(ls, {"ls": ls, "add": add, "set": set_, "rm": rm})
principals.name = "principals"
