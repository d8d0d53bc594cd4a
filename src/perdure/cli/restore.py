"""`perdure restore`: what is known of restores, and a person's word that what was lost has been looked at."""

from __future__ import annotations

import click

from perdure.cli.command import Shell, command, person


@command
@click.option("--release", is_flag=True, help="What was lost has been looked at; nobody is asked about it any more.")
@click.option("--because", metavar="TEXT", help="What you looked at, with --release.")
@person
def restore(shell: Shell, release: bool, because: str | None) -> None:
    """List restores: when the store was put back to an earlier time, and who released that.

    Until a restore is released, the first dispatch of an effect of a session that was alive then is taken as one whose
    outcome is unknown.
    """
    from perdure.cli.grid import grid
    from perdure.cli.opening import acting, reading
    from perdure.cli.plain import safe
    from perdure.clock import moment
    from perdure.errors import ConfigError
    from perdure.store import restore as restores

    if release != (because is not None):
        raise ConfigError("--release and --because belong together.", hint="Say what you looked at.")
    if because is not None:
        reason = because
        found = acting(shell, lambda runtime: runtime.store.write(restores.release(by=shell.by, because=reason)))
    else:
        with reading(shell) as tx:
            found = restores.everything(tx)
    if shell.json:
        for one in found:
            shell.emit(one)
        return
    rows = [
        [str(one.epoch), moment(one.began_at), moment(one.rewound_to), one.cause,
         "no" if one.released_at is None else f"{moment(one.released_at)} by {safe(one.released_by or '')}"]
        for one in found
    ]  # fmt: skip
    if not rows:
        shell.say("This store was never put back to an earlier time, as far as it can know.")
        return
    shell.say(*grid(("epoch", "noticed", "put back to", "known by", "released"), rows, width=shell.width))
    if any(one.released_at is None for one in found):
        shell.say("", "Look at what its sessions may have done in the lost time, then type:")
        shell.say(f"  {shell.again('restore', '--release', '--because', 'TEXT')}")
