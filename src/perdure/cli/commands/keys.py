"""`perdure keys`: the user's own public key, and the keys of others that signed bundles are checked with."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, command


@command
@click.argument("action", required=False, type=click.Choice(["add", "remove"]))
@click.argument("name", required=False)
@click.argument("key", required=False)
def keys(shell: Shell, action: str | None, name: str | None, key: str | None) -> None:
    """List your public key and those that you know, and add or remove one: for signed bundles.

    `perdure keys` lists them; `me` is your own, which `perdure export --sign` makes when it is first needed.
    `perdure keys add NAME KEY` adds the public key of somebody else, `perdure keys remove NAME` removes it. Get a key
    from its owner, and never from the bundle that it is to be checked with.
    """
    from perdure.errors import ConfigError
    from perdure.interchange import keyring

    if action is not None and (name is None or (key is None) == (action == "add")):
        raise ConfigError("A name or a key is missing, or one too many is given.", hint="`perdure keys --help` helps.")
    if action == "add":
        keyring.add_key(name or "", key or "")
    elif action == "remove":
        keyring.remove_key(name or "")
    own = keyring.own_key()
    found = {keyring.ME: own} if own is not None else {}
    found |= {one: public for public, one in sorted(keyring.known_keys().items(), key=lambda pair: pair[1])}
    if shell.json:
        for one, public in found.items():
            shell.echo_json({"name": one, "key": public, "own": one == keyring.ME})
        return
    width = max(map(len, found), default=0)
    shell.echo(*(f"{one.ljust(width)}  {public}" for one, public in found.items()))
    if own is None:
        shell.echo("You have no key of your own yet; `perdure export ID --sign` makes one.")
