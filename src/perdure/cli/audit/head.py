"""`perdure audit head` and `perdure audit verify`: what is kept elsewhere, and whether it is still there."""

from __future__ import annotations

from pathlib import Path

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.clock import format_time
from perdure.config import is_service

SHOWN = 20


@command
@click.option("--to", metavar="FILE", help="Write it to this file, and record that in the control log.")
@click.option("--sign", is_flag=True, help="Sign it with your key, which is created when first needed.")
@by_option
def head(shell: Shell, to: str | None, sign: bool) -> None:
    """Take a head: the end of every log of the store, to be kept elsewhere.

    Keep the file where those who can write to the store cannot change it, or sign it. `perdure audit verify --against
    FILE` finds later what was cut off, deleted, edited or reordered since. No lock is taken.
    """
    from perdure.cli.audit.file import write_file
    from perdure.cli.store_access import read_store, run_with_runtime
    from perdure.cli.text.plain import count, safe
    from perdure.control.audit import head as heads
    from perdure.errors import NotPermitted, StoreUnavailable
    from perdure.interchange.signing_keys import signing_key

    if is_service(shell.store):
        made = run_with_runtime(shell, lambda runtime: runtime.audit_head(to, sign=sign, by=shell.by))
    else:
        with read_store(shell) as tx:
            made = heads.take(tx, signing_key() if sign else None, shell.by)
    if to is not None and not is_service(shell.store):
        write_file(to, made.file())
        try:
            run_with_runtime(shell, lambda runtime: runtime.store.write(heads.record(made, by=shell.by)))
        except (NotPermitted, StoreUnavailable) as error:  # an auditor may only read
            shell.note(f"warning: The control log does not mention it: {error.message}")
    if shell.json:
        shell.echo_json(made.to_dict())
        return
    logs = f"{count(made.sessions, 'session')} and {count(made.control[0], 'change')} of the store"
    shell.echo(f"{'The head' if to is None else safe(to)} has the ends of the logs of {logs}.", f"root  {made.root}")
    if made.signature is not None:
        shell.echo(f"key   {made.signature.key}")
    if to is None:
        shell.echo("", "It was not written to a file: --to FILE writes it.")


@command
@click.option("--against", metavar="FILE", required=True, help="The head that was kept.")
@click.option("--signed-by", metavar="NAME", help="Require a signature by a key you know: its name, me or any-known.")
def verify(shell: Shell, against: str, signed_by: str | None) -> int:
    """Compare the store with a head of it that was kept elsewhere.

    Every log is recomputed from its events. Exits with 1 if a session of the head was deleted, or if a log was cut off,
    edited, reordered or rewritten, and names the session and the event. Erased events and removed sessions still match.
    """
    from perdure.cli.commands.verify import show_progress
    from perdure.cli.remote.supported import check_here
    from perdure.cli.store_access import read_store
    from perdure.cli.text.plain import count, safe
    from perdure.control.audit import head as heads
    from perdure.control.audit.head_check import compare
    from perdure.interchange.signing_keys import require, signer_of

    check_here(shell, "audit verify")
    kept = heads.read(Path(against).absolute())
    if signed_by is not None:
        require(signer_of(kept.signature), signed_by, "head")
    with read_store(shell) as tx:
        found = compare(tx, kept, show_progress)
    if shell.json:
        shell.echo_json(found)
        return 1 if found.findings else 0
    signer = found.signer
    by = {"known": f"signed by {signer.name}", "unknown": "signed by a key that you do not know", "none": "not signed"}
    shell.echo(f"The head of {format_time(found.taken_at)} is {safe(by[signer.state])}.")
    if found.findings:
        shell.echo("", *(safe(str(one)) for one in found.findings[:SHOWN]))
        if len(found.findings) > SHOWN:
            shell.echo(f"and {len(found.findings) - SHOWN} more; --json lists all")
        shell.echo("", f"Changed since the head: {len(found.findings)} of {count(found.sessions + 1, 'log')}.")
        return 1
    logs = f"{count(found.sessions, 'session')}, {count(found.events, 'event')} and the control log"
    shell.echo(f"{logs}: everything that the head names is there, unchanged.", f"Began later: {found.later}.")
    return 0
