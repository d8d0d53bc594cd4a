"""`perdure import`: a session from a bundle."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe, short, value
from perdure.cli.trust_prompt import can_ask
from perdure.control import receipts
from perdure.domain.permission import NAMES
from perdure.domain.session import TERMINAL
from perdure.errors import ConfigError
from perdure.interchange.import_ import CheckedBundle, Imported, open_checked
from perdure.interchange.signing_keys import ME, Signer, fingerprint
from perdure.runtime.runtime import Runtime

NAME = 60  # characters of a name that the maker of the bundle chose


@command
@click.argument("file")
@click.option("--id", "new", metavar="NEW", help="A new id, if another session has the id already.")
@click.option("--take-back", is_flag=True, help="Undo a move. Confirms that it was not imported elsewhere.")
@click.option("--keep", metavar="NAMES", help="Permissions of the bundle to keep, separated by commas; or `all`.")
@click.option("--signed-by", metavar="NAME", help="Require the signature of NAME; `any-known`: of any key you know.")
@by_option
def import_(shell: Shell, file: str, new: str | None, take_back: bool, keep: str | None, signed_by: str | None) -> None:
    """Import a bundle: a copy runs beside its original, a move continues in its place.

    A bundle that is damaged or does not verify is refused. Importing a bundle again changes nothing.

    Permissions in a bundle (allow, approvals, base_url, environment, network, repository, unsandboxed) are dropped
    unless you exported it yourself, name them with --keep, or confirm each at the terminal. A signature shows who made
    a bundle and grants no permissions; an invalid one is always refused. `perdure keys` lists the keys that you know.
    """
    named = _named_permissions(keep)
    with open_checked(
        Path(file), signed_by=signed_by
    ) as bundle:  # before a store is created for a bundle that is refused
        kept = _kept_permissions(shell, bundle, named)

        async def work(runtime: Runtime) -> Imported:

            artifacts = runtime.values.directory
            return await asyncio.to_thread(
                bundle.into, runtime.store, by=shell.by, id=new, take_back=take_back, artifacts=artifacts,
                keep=kept,
            )  # fmt: skip

        done = run_with_runtime(shell, work, create=True)
    if shell.json:
        shell.echo_json(done)
    else:
        show_import(shell, done)


def _named_permissions(keep: str | None) -> frozenset[str] | None:

    if keep is None:
        return None
    named = frozenset(NAMES) if keep == "all" else frozenset(filter(None, map(str.strip, keep.split(","))))
    if unknown := named - frozenset(NAMES):
        raise ConfigError(f"{min(unknown)!r} is not a permission.", hint=f"The permissions are {', '.join(NAMES)}.")
    return named


def _kept_permissions(shell: Shell, bundle: CheckedBundle, named: frozenset[str] | None) -> frozenset[str]:
    """The permissions to keep: those named, all of a bundle that this user exported, or those confirmed now."""
    if named is not None:
        return named
    if receipts.has(bundle.digest):
        return frozenset(NAMES)
    if not bundle.permissions or not can_ask(shell):
        return frozenset()
    click.echo(signature_line(bundle.signer), err=True)
    click.echo(f"The bundle claims to be made by {safe(bundle.by)}. It contains permissions:", err=True)
    return frozenset(
        name
        for name, one in bundle.permissions.items()
        if click.confirm(f"  Keep {name} = {value(one)}?", default=False, err=True)
    )


def signature_line(signer: Signer) -> str:
    """Who signed a bundle. A name can be chosen freely, so it is shown only for a key that the user knows."""
    if signer.key is None:
        return "The bundle is not signed."
    if signer.name is None:
        claimed = short(signer.claimed_name or "", NAME)
        return f'The bundle is signed by an unknown key, {fingerprint(signer.key)}, which claims to be "{claimed}".'
    return (
        "The bundle is signed with your own key."
        if signer.name == ME
        else (f"The bundle is signed by {safe(signer.name)}, with a key that you know.")
    )


def show_import(shell: Shell, done: Imported) -> None:

    here, source = done.session, done.source
    if not done.changed:
        shell.echo(f"Session {here.id} exists already; nothing changed.")
    elif done.mode == "copy":
        shell.echo(
            f"Session {here.id} is a copy of {source.id} at event {source.cursor}. The original is kept as history."
        )
    else:
        shell.echo(f"Session {here.id} continues here, from event {source.cursor}.")
    shell.echo(signature_line(done.signer))
    for name, was in done.dropped.items():
        why = "these votes do not count here" if name == "approvals" else "a bundle cannot grant itself permissions"
        shell.echo(f"Dropped {name} = {value(was)}: {why}.")
    if here.sealed_at is not None:
        shell.echo("It is sealed: it was moved to another store.")
    elif here.status not in TERMINAL:
        shell.echo(f"Run `{shell.suggest('resume', here.id, app=True)}` to continue it.")
