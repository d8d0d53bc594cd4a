"""`perdure import`: a bundle comes in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, by_option, command

if TYPE_CHECKING:
    from perdure.interchange.import_ import CheckedBundle, Imported
    from perdure.interchange.keyring import Signer
    from perdure.runtime.runtime import Runtime

NAME = 60  # letters of a name that a stranger chose


@command
@click.argument("file")
@click.option("--id", "new", metavar="NEW", help="A name of its own, where another session has its name already.")
@click.option("--take-back", is_flag=True, help="Undo a move: say that it was imported nowhere else.")
@click.option("--keep", metavar="NAMES", help="Permissions of the bundle to keep, with commas between; or `all`.")
@click.option("--signed-by", metavar="NAME", help="Refuse it unless this name signed it; `any-known`: any you know.")
@by_option
def import_(shell: Shell, file: str, new: str | None, take_back: bool, keep: str | None, signed_by: str | None) -> None:
    """Take a bundle in: a copy goes on beside its original, a move goes on in its place.

    A bundle that is torn or does not verify is refused whole. Importing it again changes nothing.

    Permissions in a bundle (allow, approvals, base_url, environment, network, repository, unsandboxed) are dropped
    unless you exported it yourself, name them with --keep, or confirm each at the terminal. A signature says who made a
    bundle, and gives it no permissions; one that is wrong is always refused. `perdure keys` lists the names you know.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.interchange.import_ import open_checked

    named = _named(keep)
    with open_checked(Path(file), signed_by=signed_by) as bundle:  # before a store is made for what is refused
        kept = _kept(shell, bundle, named)

        async def work(runtime: Runtime) -> Imported:
            import asyncio

            artifacts = runtime.values.directory
            return await asyncio.to_thread(
                bundle.into, runtime.store, by=shell.by, id=new, take_back=take_back, artifacts=artifacts,
                keep=kept,
            )  # fmt: skip

        done = run_with_runtime(shell, work, create=True)
    if shell.json:
        shell.echo_json(done)
    else:
        tell(shell, done)


def _named(keep: str | None) -> frozenset[str] | None:
    from perdure.domain.permission import NAMES
    from perdure.errors import ConfigError

    if keep is None:
        return None
    named = frozenset(NAMES) if keep == "all" else frozenset(filter(None, map(str.strip, keep.split(","))))
    if unknown := named - frozenset(NAMES):
        raise ConfigError(f"{min(unknown)!r} is no permission of a bundle.", hint=f"Name some of {', '.join(NAMES)}.")
    return named


def _kept(shell: Shell, bundle: CheckedBundle, named: frozenset[str] | None) -> frozenset[str]:
    """The permissions to keep: those that were named, those of the user's own bundle, or those confirmed now."""
    from perdure.cli.commands.trust import can_ask
    from perdure.cli.text.plain import safe, value
    from perdure.control import receipts
    from perdure.domain.permission import NAMES

    if named is not None:
        return named
    if receipts.has(bundle.digest):
        return frozenset(NAMES)
    if not bundle.permissions or not can_ask(shell):
        return frozenset()
    click.echo(signed(bundle.signer), err=True)
    click.echo(f"The bundle says that it was made by {safe(bundle.by)}. It asks for permissions:", err=True)
    return frozenset(
        name
        for name, one in bundle.permissions.items()
        if click.confirm(f"  Keep {name} = {value(one)}?", default=False, err=True)
    )


def signed(signer: Signer) -> str:
    """Who signed a bundle. Anybody may choose any name, so a name counts only with a key that the user knows."""
    from perdure.cli.text.plain import safe, short
    from perdure.interchange.keyring import ME, fingerprint

    if signer.key is None:
        return "The bundle is not signed."
    if signer.name is None:
        claimed = short(signer.claimed_name or "", NAME)
        return f'The bundle is signed by an unknown key, {fingerprint(signer.key)}, which calls itself "{claimed}".'
    return (
        "The bundle is signed with your own key."
        if signer.name == ME
        else (f"The bundle is signed by {safe(signer.name)}, with a key that you know.")
    )


def tell(shell: Shell, done: Imported) -> None:
    from perdure.cli.text.plain import value
    from perdure.domain.session import TERMINAL

    here, source = done.session, done.source
    if not done.changed:
        shell.echo(f"Session {here.id} is here already; nothing changed.")
    elif done.mode == "copy":
        shell.echo(f"Session {here.id} is a copy of {source.id} at event {source.cursor}, which is kept as history.")
    else:
        shell.echo(f"Session {here.id} goes on here, from event {source.cursor}.")
    shell.echo(signed(done.signer))
    for name, was in done.dropped.items():
        why = "these votes do not count here" if name == "approvals" else "the bundle gave itself this permission"
        shell.echo(f"Dropped {name} = {value(was)}: {why}.")
    if here.sealed_at is not None:
        shell.echo("It is sealed: it was moved on from here.")
    elif here.status not in TERMINAL:
        shell.echo(f"`{shell.suggest('resume', here.id, app=True)}` runs it.")
