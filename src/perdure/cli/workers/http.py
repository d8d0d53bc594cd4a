"""The process `http` of `perdure serve`: its options, its sockets, and how it is started."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click
import msgspec

from perdure.cli.shell import Shell
from perdure.control.supervisor.tree import HttpSpec
from perdure.errors import ConfigError
from perdure.runtime.runtime import Runtime

if TYPE_CHECKING:
    from perdure.server.settings import ServerSettings

F = TypeVar("F", bound=Callable[..., Any])
MISSING = "Requests over HTTP need a package that is not installed."
INSTALL = "Run `pip install 'perdure[server]'`."
INSTALL_OIDC = "Run `pip install 'perdure[server,oidc]'`."
OPTIONS = [
    click.option("--host", metavar="H", help="Listen on this address (default: 127.0.0.1)."),
    click.option(
        "--port", type=click.IntRange(0, 65535), metavar="N",
        help="Listen on this port (default: 7180, or a free one if it is taken); 0: a free one.",
    ),
    click.option("--socket", metavar="PATH", help="The path of the Unix socket (default: in the runtime folder)."),
    click.option("--allow-host", multiple=True, metavar="NAME", help="A host name that clients use. Repeatable."),
    click.option(
        "--allow-origin", multiple=True, metavar="URL", help="Another origin whose pages may use the API. Repeatable."
    ),
    click.option("--behind-proxy", is_flag=True, help="A proxy that has TLS and checks the host stands in front."),
    click.option("--tls-cert", type=click.Path(exists=True), metavar="FILE", help="The certificate, in PEM."),
    click.option("--tls-key", type=click.Path(exists=True), metavar="FILE", help="Its key, in PEM."),
    click.option("--root-path", default="", metavar="PATH", help="The path under which the proxy serves it."),
    click.option("--public-url", default="", metavar="URL", help="The address that browsers use."),
    click.option("--oidc-issuer", default="", metavar="URL", help="People sign in to the console with this provider."),
    click.option("--oidc-client", default="", metavar="ID", help="The service as a client of the provider."),
    click.option(
        "--oidc-secret-file", default="", metavar="FILE", help="The secret of the client (default: a public client)."
    ),
    click.option(
        "--proxy-user-header", default="", metavar="NAME",
        help="The proxy names the user that it has signed in, in this header. It must remove it from requests.",
    ),
    click.option("--no-http", is_flag=True, help="Do not listen."),
]  # fmt: skip
NAMES = frozenset({
    "host", "port", "socket", "allow_host", "allow_origin", "behind_proxy", "tls_cert", "tls_key", "root_path",
    "no_http", "public_url", "oidc_issuer", "oidc_client", "oidc_secret_file", "proxy_user_header",
})  # fmt: skip


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options as they were given."""

    host: str | None
    port: int | None
    socket: str | None
    allow_host: tuple[str, ...]
    allow_origin: tuple[str, ...]
    behind_proxy: bool
    tls_cert: str | None
    tls_key: str | None
    root_path: str
    no_http: bool
    public_url: str
    oidc_issuer: str
    oidc_client: str
    oidc_secret_file: str
    proxy_user_header: str

    @property
    def are_given(self) -> bool:
        """Whether anything was said about HTTP, so that leaving it out would be a surprise."""
        return any(getattr(self, name) not in (None, (), False, "") for name in NAMES)


class HttpListener(msgspec.Struct, frozen=True):
    """Where the service listens, and the process that answers there; neither if it does not."""

    spec: HttpSpec | None = None
    addresses: list[str] = []
    notes: list[str] = []


def http_options(function: F) -> F:
    """Add the options of the service to a command."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def read_options(options: Mapping[str, Any]) -> HttpOptions:
    return HttpOptions(**{name: options[name] for name in NAMES})


@asynccontextmanager
async def listening(shell: Shell, runtime: Runtime, options: HttpOptions | None) -> AsyncIterator[HttpListener]:
    """Hold the sockets of the service open. Without the extra `server` there are none, and one sentence says so."""
    if options is None or options.no_http:
        yield HttpListener()
        return
    if not is_installed():
        if options.are_given:
            raise ConfigError(MISSING, hint=INSTALL)
        shell.note(f"warning: {MISSING} {INSTALL}")
        yield HttpListener()
        return
    from perdure.runtime.workers.private_folder import runtime_folder
    from perdure.server.http_process import plan_of
    from perdure.server.listeners import ListenOptions, open_listeners
    from perdure.store.moves import meta, token

    store_id = await runtime.store.read(meta.get, "store_id")
    wanted = ListenOptions(
        host=options.host, port=options.port, socket=options.socket, certificate=options.tls_cert,
        key=options.tls_key, behind_proxy=options.behind_proxy,
    )  # fmt: skip
    settings = read_server_settings(options)
    has_tokens = await runtime.store.read(token.count_usable) > 0
    opened = open_listeners(wanted, runtime_folder() / f"http-{store_id}.sock", has_tokens=has_tokens)
    try:
        plan = msgspec.json.encode(plan_of(settings, wanted, opened)).decode()
        words = ["--plan", plan]
        for one in shell.app:
            words += ["--app", one]
        yield HttpListener(HttpSpec(tuple(words), opened.descriptors), opened.addresses, opened.notes)
    finally:
        opened.close()


def read_server_settings(options: HttpOptions) -> ServerSettings:
    """The settings of the process `http`; refuses those that do not fit together."""
    from perdure.server.settings import ServerSettings, check_sign_in

    own = urlsplit(options.public_url).hostname
    made = ServerSettings(
        hosts=tuple(one.lower() for one in (*options.allow_host, *filter(None, [options.host, own]))),
        origins=options.allow_origin, behind_proxy=options.behind_proxy, root_path=root_path_of(options.root_path),
        public_url=options.public_url, oidc_issuer=options.oidc_issuer, oidc_client=options.oidc_client,
        oidc_secret_file=options.oidc_secret_file, user_header=options.proxy_user_header,
    )  # fmt: skip
    check_sign_in(made)
    if made.oidc_issuer and not all(find_spec(name) is not None for name in ("authlib", "httpx")):
        raise ConfigError("OpenID Connect needs a package that is not installed.", hint=INSTALL_OIDC)
    return made


def root_path_of(given: str) -> str:
    """A root path with one slash at its start and none at its end; empty for the root."""
    if any(char in given for char in "?#%\\ ") or not given.isascii() or ".." in given or "//" in given:
        raise ConfigError(f"{given!r:.80} is not a path under which a proxy serves.", hint="Give one such as /perdure.")
    inner = given.strip("/")
    return f"/{inner}" if inner else ""


def is_installed() -> bool:
    return all(
        name in sys.modules or find_spec(name) is not None for name in ("starlette", "uvicorn", "httptools", "jinja2")
    )
