"""`perdure roles`: the roles of a PostgreSQL store, which separate duties in the database."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, command
from perdure.errors import ConfigError

SHOWN = 10


@command
@click.option("--sql", is_flag=True, help="Print the statements that make the roles, and run nothing.")
@click.option("--apply", "apply_", is_flag=True, help="Make the roles, and give them their rights.")
@click.option("--prefix", metavar="NAME", help="How the names of the roles begin.  [default: perdure]")
def roles(shell: Shell, sql: bool, apply_: bool, prefix: str | None) -> int:
    """Show the roles of a PostgreSQL store and whether they are in force, or make them.

    The roles worker, service, approver, auditor and owner have no login: grant them to logins. Exits with 1 if the
    rights in the database differ from the declared ones.
    """
    from perdure.cli.store_access import read_store
    from perdure.control.roles import apply_roles, examine_roles, role_statements
    from perdure.store.databases.postgres.roles import PREFIX
    from perdure.store.inspection import read_access

    if sql and apply_:
        raise ConfigError("Only one of --sql and --apply can be given.")
    if sql:
        text = role_statements(prefix or PREFIX)
        shell.echo_json({"sql": text}) if shell.json else shell.echo(text.rstrip())
        return 0
    place = read_access.locate_store(shell.store)
    if place.kind != "postgres":
        raise ConfigError(f"{place.shown} has no roles.", hint="Roles need a store on PostgreSQL.")
    if apply_:
        found = apply_roles(shell.store, prefix)
    else:
        with read_store(shell) as tx:
            found = examine_roles(tx)
    if shell.json:
        shell.echo_json(found)
    else:
        shell.echo(*describe(found.prefix, found.members, found.differences, found.login, bound=not found.is_owner))
    return 0 if found.in_force else 1


def describe(
    prefix: str | None, members: dict[str, list[str]], differences: list[str], login: str, *, bound: bool
) -> list[str]:
    """The report in lines."""
    if prefix is None:
        return ["The store has no roles yet: `perdure roles --apply` makes them."]
    lines = [f"{name}: {', '.join(who) or 'no login has it'}" for name, who in members.items()]
    lines += [f"wrong: {one}" for one in differences[:SHOWN]]
    if len(differences) > SHOWN:
        lines.append(f"and {len(differences) - SHOWN} more")
    lines.append("The rights in the database differ: run `perdure roles --apply`." if differences else "In force.")
    lines.append(f"This login is {login}" + ("." if bound else ", which owns the tables: rights do not bind it."))
    return lines
