"""`perdure keys`: the user's own public key, and the keys of other people, which verify signed bundles."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, command
from perdure.errors import ConfigError
from perdure.interchange import signing_keys


@command
@click.argument("action", required=False, type=click.Choice(["add", "remove"]))
@click.argument("name", required=False)
@click.argument("key", required=False)
def keys(shell: Shell, action: str | None, name: str | None, key: str | None) -> None:
    """List your public key and the keys that you know, and add or remove one, for signed bundles.

    `perdure keys` lists them; `me` is your own key, which `perdure export --sign` creates when first needed.
    `perdure keys add NAME KEY` adds the public key of another person, `perdure keys remove NAME` removes it. Get a key
    from its owner, never from the bundle that you want to verify.
    """
    if action is not None and (name is None or (key is None) == (action == "add")):
        raise ConfigError("A name or a key is missing, or there is one too many.", hint="See `perdure keys --help`.")
    if action == "add":
        signing_keys.add_key(name or "", key or "")
    elif action == "remove":
        signing_keys.remove_key(name or "")
    own = signing_keys.own_key()
    found = {signing_keys.ME: own} if own is not None else {}
    found |= {one: public for public, one in sorted(signing_keys.known_keys().items(), key=lambda pair: pair[1])}
    if shell.json:
        for one, public in found.items():
            shell.echo_json({"name": one, "key": public, "own": one == signing_keys.ME})
        return
    width = max(map(len, found), default=0)
    shell.echo(*(f"{one.ljust(width)}  {public}" for one, public in found.items()))
    if own is None:
        shell.echo("You have no key of your own yet; `perdure export ID --sign` creates one.")
