"""How the service is run: where it listens, what it trusts, and its limits."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from urllib.parse import urlsplit

import msgspec

from perdure.errors import ConfigError

MEGABYTE = 1 << 20


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one service process."""

    hosts: tuple[str, ...] = ()  # names that it is reached by, besides loopback; empty and no proxy: only those
    origins: tuple[str, ...] = ()  # other origins whose pages may use it
    behind_proxy: bool = False  # a proxy stands in between: peers are not users, and it has checked the host
    root_path: str = ""
    public_url: str = ""  # the address that browsers use, with the root path; empty: the host that they name
    oidc_issuer: str = ""  # the provider of OpenID Connect with which people sign in to the console
    oidc_client: str = ""
    oidc_secret_file: str = ""
    user_header: str = ""  # the header in which the proxy names the subject that it has authenticated
    largest_body: int = 1 * MEGABYTE
    largest_bundle: int = 1024 * MEGABYTE
    requests_per_minute: int = 6000  # of one caller
    failures_per_minute: int = 600  # failed authentications from one address
    patience: float = 60.0  # seconds for one request that is no stream
    streams_per_caller: int = 2000
    heartbeat: float = 15.0  # seconds between signs of life on a stream
    slow: float = (
        30.0  # seconds in which a client must take something of a stream, send something of a bundle, or send a body
    )
    recheck: float = 5.0  # seconds between two looks whether the caller of a stream still may
    store_answer: float = 30.0  # seconds in which the store must answer such a look; nothing is sent meanwhile
    own_uid: int = msgspec.field(default_factory=os.getuid)


def with_hosts(settings: ServerSettings, hosts: Collection[str]) -> ServerSettings:
    """The same, reached by more names."""
    return msgspec.structs.replace(settings, hosts=(*settings.hosts, *hosts))


def check_sign_in(settings: ServerSettings) -> None:
    """Refuse a way to sign in that is incomplete, or that others could use in the name of a person."""
    if bool(settings.oidc_issuer) != bool(settings.oidc_client):
        raise ConfigError("OpenID Connect needs a provider and a client.", hint="Give --oidc-issuer and --oidc-client.")
    if settings.user_header and not settings.behind_proxy:
        raise ConfigError("Without a proxy, any client could write the header of a user.", hint="Give --behind-proxy.")
    if settings.user_header and settings.oidc_issuer:
        raise ConfigError("The proxy signs people in, or the service does: not both.", hint="Leave one of them out.")
    if settings.user_header and re.fullmatch(r"[A-Za-z0-9-]{1,100}", settings.user_header) is None:
        raise ConfigError(f"{settings.user_header!r:.80} is not the name of a header.")
    for url in filter(None, (settings.oidc_issuer, settings.public_url)):
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1"))
        if not is_safe or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"{url!r:.200} is not an address with https.")
    if settings.oidc_issuer and settings.behind_proxy and not settings.public_url:
        raise ConfigError(
            "Behind a proxy, OpenID Connect must know the address that browsers use.", hint="Give --public-url."
        )
    if settings.oidc_secret_file and not os.access(settings.oidc_secret_file, os.R_OK):
        raise ConfigError(f"{settings.oidc_secret_file} cannot be read.")
