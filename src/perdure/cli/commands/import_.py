"""`perdure import`: a session from a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from perdure.agent.files.transfer.clone import clone_at
from perdure.cli.prompts.trust_prompt import can_ask
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import count, safe, short, value
from perdure.config import is_service
from perdure.control import receipts
from perdure.control.session_files import ImportedSession, import_session
from perdure.domain.permission import NAMES, REPOSITORY
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
@click.option("--into", metavar="DIR", help="Where it works: a clone of its repository, or a new folder for its files.")
@click.option("--keep-owner", is_flag=True, help="Keep the owner that the bundle names; else you own the session.")
@click.option("--without-files", is_flag=True, help="Leave out the files of the bundle.")
@by_option
def import_(
    shell: Shell, file: str, new: str | None, take_back: bool, keep: str | None, signed_by: str | None,
    into: str | None, keep_owner: bool, without_files: bool,
) -> None:  # fmt: skip
    """Import a bundle: a copy runs beside its original, a move continues in its place.

    A bundle that is damaged or does not verify is refused. Importing a bundle again changes nothing.

    If the bundle has files, --into names the folder that the session works in here: a clone of the same repository,
    whose files do not change, or a new folder, which gets the newest files.

    Permissions in a bundle (allow, approvals, base_url, environment, network, repository, unsandboxed) are dropped
    unless you exported it yourself, name them with --keep, or confirm each at the terminal. A signature shows who made
    a bundle and grants no permissions; an invalid one is always refused. `perdure keys` lists the keys that you know.
    """
    named = _named_permissions(keep)
    with open_checked(
        Path(file), signed_by=signed_by
    ) as bundle:  # before a store is created for a bundle that is refused
        if is_service(shell.store):
            done = _import_there(
                shell, file, new, take_back, signed_by, keep_owner, unsent=bool(named) or into is not None
            )
        else:
            kept = _kept_permissions(shell, bundle, named)
            place = Path(into) if into is not None else None if without_files else _offered_clone(shell, bundle, kept)

            async def work(runtime: Runtime) -> ImportedSession:
                return await import_session(
                    runtime, bundle, by=shell.by, id=new, take_back=take_back, keep=kept, into=place,
                    files=not without_files, keep_owner=keep_owner,
                )  # fmt: skip

            done = run_with_runtime(shell, work, create=True)
    if shell.json:
        shown = {name: getattr(done, name) for name in ("files", "folder")}
        shell.echo_json(msgspec.to_builtins(done.imported) | msgspec.to_builtins(shown))
    else:
        show_import(shell, done.imported)
        shell.echo(*file_lines(shell, file, done))


def _import_there(
    shell: Shell, file: str, new: str | None, take_back: bool, signed_by: str | None, keep_owner: bool, *, unsent: bool
) -> ImportedSession:
    """The same through a service, which drops the permissions of a bundle and makes no folder."""
    if unsent:
        raise ConfigError("A service keeps no permissions, and makes no folder.", hint="Leave --keep and --into out.")
    return run_with_runtime(
        shell,
        lambda runtime: runtime.import_(
            Path(file), id=new, take_back=take_back, signed_by=signed_by, keep_owner=keep_owner
        ),
    )


def _offered_clone(shell: Shell, bundle: CheckedBundle, kept: frozenset[str]) -> Path | None:
    """The clone in the current folder, if the user wants the session to work there."""
    if bundle.files is None or REPOSITORY in kept or not can_ask(shell):
        return None
    clone = clone_at(Path.cwd(), bundle.files)
    wanted = clone is not None and click.confirm(
        f"Let the session work in {safe(str(clone))}, a clone of its repository?", default=False, err=True
    )
    return clone if wanted else None


def file_lines(shell: Shell, file: str, done: ImportedSession) -> Iterator[str]:
    """Where the files of the bundle are, and what to type."""
    about, session = done.files, done.imported.session
    if about is None:
        return
    number = count(len(about.snapshots), "snapshot")
    if done.folder is None:
        yield f"Its files, {number}, were not imported: they need a folder."
        yield f"Run `{shell.suggest('import', file, '--into', 'DIR')}` with a clone of its repository, or a new folder."
        yield from (f"Its repository: {safe(one)}" for one in about.remotes[:1])
    elif done.is_new:
        yield f"It works in the new folder {safe(done.folder)}, which has its newest files; {number} came with it."
    else:
        yield f"It works in {safe(done.folder)}; {number} came with it, and no file there changed."
        if session.forked_from is None and session.status not in TERMINAL:
            back = shell.suggest("rewind", session.id, "--here", "--snapshot", about.snapshots[-1])
            yield f"`{back}` puts its newest files there."
    if about.left_out:
        yield f"{about.left_out} of its snapshots are not in the bundle."


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
