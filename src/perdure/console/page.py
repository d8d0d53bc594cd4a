"""A page or an action of the console, and one request for it.

Pages are data, as operations are: each names the verb that it needs and what it touches, and `server.authorization`
checks it before the page reads anything. So the console shows and does exactly what the caller may.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from perdure.console.access_notes import AccessNotes
from perdure.console.login import cookies
from perdure.console.page_stream import PageStream, Rest
from perdure.domain.caller import STORE_WIDE, Caller, Verb
from perdure.errors import ConfigError
from perdure.runtime.runtime import Runtime
from perdure.server.operation import Context, Operation, ShownRead, Touch
from perdure.server.routes import read_body
from perdure.server.settings import ServerSettings
from perdure.store.move import StoreTransaction

LARGEST_FORM = 1 << 20
MOST_FIELDS = 100
FORM = "application/x-www-form-urlencoded"


class ConsoleContext(Context):
    """One request of a person for a page or an action."""

    __slots__ = ("accesses", "environment", "form", "secret", "settings")

    def __init__(
        self, operation: Operation, request: Request, runtime: Runtime, caller: Caller, *,
        settings: ServerSettings, environment: Environment, secret: str, accesses: AccessNotes,
    ) -> None:  # fmt: skip
        super().__init__(operation, request, runtime, caller)
        self.settings = settings
        self.environment = environment
        self.secret = secret
        self.accesses = accesses
        self.form: dict[str, str] = {}

    @property
    def now(self) -> int:
        return self.store.clock.now()

    @property
    def root(self) -> str:
        return root_of(self.request)

    def will_show(
        self, tx: StoreTransaction, action: str, subject: str | None = None, session: str | None = None
    ) -> None:
        """The caller will be shown what this transaction reads: it is recorded once in an hour."""
        if not self.accesses.is_noted(self.caller.identity, ShownRead(action, session or self.uid, subject)):
            super().will_show(tx, action, subject, session)

    async def record_reads(self) -> None:
        read = list(self.reads)
        await super().record_reads()
        self.accesses.note(self.caller.identity, read)

    def given(self, name: str, default: str = "") -> str:
        """A parameter of the query."""
        return self.request.query_params.get(name, default).replace("\0", "")

    def number(self, name: str, default: int, most: int = 2**53) -> int:
        """A parameter that is a number, within bounds."""
        text = self.given(name)
        return max(0, min(int(text), most)) if text.isascii() and text.isdigit() and len(text) < 17 else default

    def field(self, name: str) -> str:
        """A field of the form, without spaces around it."""
        return self.form.get(name, "").strip()

    def because(self) -> str | None:
        return self.field("because") or None

    def show(self, template: str, answer: int = 200, /, **values: Any) -> Response:
        """The page of a template."""
        return HTMLResponse(self.environment.get_template(template).render(self._common() | values), answer)

    def stream(self, template: str, rest: Rest, /, **values: Any) -> Response:
        """The same, begun before the rest of its values is read."""
        return PageStream(
            self.environment.get_template(template), self._common() | values, rest, by=self.caller.identity,
            failure=lambda error: self.environment.get_template("failed.html").render(error=error),
        )  # fmt: skip

    def _common(self) -> dict[str, Any]:
        """What every page shows."""
        return {
            "root": self.root, "me": self.caller, "now": self.now, "form_token": cookies.form_token(self.secret),
            "here": self.request.url.path.removeprefix(self.root), "may": self.may, "did": self.given("did"),
            "query": self.request.url.query, "end_of_beginning": "",
        }  # fmt: skip

    def may(self, verb: str, on: Any = None) -> bool:
        """Whether the caller may do something, for templates; without an object: anywhere."""
        wanted = Verb(verb)
        if on is None and wanted not in STORE_WIDE:
            return self.caller.has_role_for(wanted)
        return self.caller.may(wanted, on)

    def back(self, did: str, to: str | None = None) -> Response:
        """Back to the page with the form, which then says what was done."""
        place = self.root + to if to is not None else local_path(self.field("back")) or f"{self.root}/"
        path, _, query = place.partition("?")
        kept = [part for part in query.split("&") if part and not part.startswith("did=")]
        return RedirectResponse(f"{path}?{'&'.join([*kept, f'did={quote(did)}'])}", 303)


Handler = Callable[[ConsoleContext], Awaitable[Response]]


class ConsolePage(msgspec.Struct, frozen=True):
    """A page, or with POST an action."""

    path: str
    verb: Verb
    touches: Touch
    handler: Handler
    method: str = "GET"
    streams: bool = False  # it sends events until the browser leaves
    shows: str = ""  # of its session, what the policy may want to be recorded

    @property
    def operation(self) -> Operation:
        """What authorization checks."""

        async def handler(_: Context) -> None: ...

        return Operation(
            name=f"console{self.path}", method=self.method, path=self.path, verb=self.verb, touches=self.touches,
            handler=handler, summary="", shows=self.shows,
        )  # fmt: skip


def action(path: str, verb: Verb, touches: Touch, handler: Handler) -> ConsolePage:
    """Something that a form does."""
    return ConsolePage(path, verb, touches, handler, "POST")


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise ConfigError("This is not a form.", status=415)
    try:
        text = (await read_body(request, LARGEST_FORM)).decode()
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise ConfigError("The form is not text in UTF-8, or it has too many fields.", status=400) from None
    return {name: value.replace("\0", "").replace("\r\n", "\n") for name, value in fields}


def root_of(request: Request) -> str:
    """The path under which a proxy serves the service."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def local_path(text: str) -> str | None:
    """A path of this service; None if the text names another place."""
    parts = urlsplit(text)
    is_local = text.startswith("/") and not text.startswith("//") and not parts.netloc and not parts.scheme
    return text if is_local and "\\" not in text and text.isprintable() and len(text) < 2000 else None


def path_of(*segments: str, **query: Any) -> str:
    """A path of the console with its segments and query escaped."""
    path = "/" + "/".join(quote(one, safe="") for one in segments)
    given = [f"{name}={quote(str(value), safe='')}" for name, value in query.items() if value not in (None, "")]
    return f"{path}?{'&'.join(given)}" if given else path


def fields_of(form: Mapping[str, str]) -> dict[str, str]:
    """What a person typed, to show it again if it was refused."""
    return {name: value for name, value in form.items() if name not in ("form_token", "back", "token") and value}
