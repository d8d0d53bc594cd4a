"""`perdure.connect`: open a runtime over a service."""

from __future__ import annotations

from perdure.client.address import find_token, read_address
from perdure.errors import ConfigError
from perdure.runtime.runtime import Runtime

MISSING = "A service needs a package that is not installed."
INSTALL = "Run `pip install 'perdure[client]'`."


def connect(url: str, token: str | None = None, *, ca: str | None = None, patience: float = 30.0) -> Runtime:
    """A runtime over a service: the same verbs, records and errors, without a store.

    `url` is https://HOST, http:// on this machine, or unix:PATH. Without `token`, that of PERDURE_TOKEN or of your
    token file is used. `ca` is a file of certificates to trust. A request whose connection is lost is sent again for
    `patience` seconds, and carried out once.
    """
    address = read_address(url)
    try:
        from perdure.client.connection import ServiceConnection
        from perdure.client.remote_runtime import RemoteRuntime
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise ConfigError(MISSING, hint=INSTALL) from None
    return RemoteRuntime(ServiceConnection(address, find_token(token, address), ca=ca, patience=patience))
