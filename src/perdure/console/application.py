"""The console as routes of the service. Each request for a page passes, in this order:

sign-in    the browser is signed in, or is sent to the form
form       of an action: it comes from a page of this service, and carries the form token of this browser
rights     the same authorization as for operations; what one may not see is not there
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from perdure.console.access_notes import AccessNotes
from perdure.console.environment import FILES, make_environment, static_file
from perdure.console.login import cookies, openid
from perdure.console.login.sign_in import SignIns
from perdure.console.page import ConsoleContext, ConsolePage, fields_of, local_path, read_form, root_of
from perdure.console.table import TABLE
from perdure.domain.identity import Identity, acting
from perdure.errors import NotFound, PerdureError
from perdure.runtime.runtime import Runtime
from perdure.server.authorization import ask_ahead, authorize
from perdure.server.problem import request_id, status_of
from perdure.server.settings import ServerSettings
from perdure.store.move import StoreTransaction

logger = logging.getLogger(__name__)
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",  # without a referrer, forms would be sent without an origin
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
Endpoint = Callable[[Request], Awaitable[Response]]


def console_routes(runtime: Runtime, settings: ServerSettings) -> list[BaseRoute]:
    """The routes of the console, for `server.application.make_application`."""
    console = Console(runtime, settings)
    signs = console.sign_ins
    return [
        Route("/static/{name}", static, name="static"),
        Route("/sign-in", console.guarded(signs.show), methods=["GET"]),
        Route("/sign-in", console.guarded(signs.sign_in), methods=["POST"]),
        Route(openid.PATH, console.guarded(signs.begin_openid), methods=["GET"]),
        Route(openid.CALLBACK, console.guarded(signs.finish_openid), methods=["GET"]),
        Route("/sign-out", console.guarded(signs.sign_out), methods=["POST"]),
        *(Route(one.path, console.endpoint(one), methods=[one.method]) for one in TABLE),
        Route("/{rest:path}", console.guarded(missing), methods=["GET", "POST"]),
    ]


class Console:
    """Answers the requests for pages and actions."""

    def __init__(self, runtime: Runtime, settings: ServerSettings) -> None:
        self._runtime = runtime
        self._settings = settings
        self._environment = make_environment()
        self._accesses = AccessNotes(runtime.store.clock)
        self.sign_ins = SignIns(runtime, settings, self._environment)

    def endpoint(self, page: ConsolePage) -> Endpoint:
        operation = page.operation

        async def answer(request: Request) -> Response:
            secret = cookies.secret_of(request, self._settings)

            def enter(tx: StoreTransaction) -> tuple[ConsoleContext, PerdureError | None] | None:
                ask_ahead(tx, operation, request.path_params)
                caller = None if secret is None else self.sign_ins.caller(tx, request, secret)
                if secret is None or caller is None:
                    return None
                context = ConsoleContext(
                    operation, request, self._runtime, caller,
                    settings=self._settings, environment=self._environment, secret=secret, accesses=self._accesses,
                )  # fmt: skip
                return context, _authorized(tx, context, page) if page.method == "GET" else None

            entered = None if secret is None else await self._runtime.store.read(enter)
            if entered is None:
                return await self._not_signed_in(request)
            return await self._answer(page, *entered)

        return self.guarded(answer)

    async def _answer(self, page: ConsolePage, context: ConsoleContext, refused: PerdureError | None) -> Response:
        request = context.request
        if page.method == "POST":
            context.form = await read_form(request)
            cookies.check_form(request, self._settings, context.form.get("form_token", ""))
        with acting(Identity.parse(context.caller.identity)):
            try:
                if page.method == "POST":
                    refused = await context.store.read(_authorized, context, page)
                if refused is not None:
                    raise refused
                await context.record_reads()
                return await page.handler(context)
            except PerdureError as error:
                return self._refused(request, error, context)

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """An endpoint with the checks that need no sign-in, and with the headers of every page."""

        async def answer(request: Request) -> Response:
            try:
                if request.method == "POST":
                    cookies.check_origin(request, self._settings)
                response = await endpoint(request)
            except PerdureError as error:
                response = self._refused(request, error)
            except Exception as error:
                logger.error("Request %s failed.", request_id(request), exc_info=error)
                hint = f"The log of the service has the request {request_id(request)}."
                response = self._refused(request, PerdureError("The service failed.", hint=hint, status=500))
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        return answer

    async def _not_signed_in(self, request: Request) -> Response:
        root = root_of(request)
        if request.method != "GET":
            return await self.sign_ins.form(request, "Your sign-in has ended. Nothing was changed.", 401)
        if cookies.comes_from_elsewhere(request) and cookies.secret_of(request, self._settings) is None:
            return HTMLResponse(self._environment.get_template("reload.html").render(root=root))
        query = f"?{request.url.query}" if request.url.query else ""
        wanted = local_path(request.url.path + query) or "/"
        return RedirectResponse(f"{root}/sign-in?next={quote(wanted, safe='/')}", 303)

    def _refused(self, request: Request, error: PerdureError, context: ConsoleContext | None = None) -> Response:
        status = status_of(error)
        values = {"error": error, "status": status, "request_id": request_id(request)}
        if context is not None:
            back = local_path(context.field("back"))
            return context.show("error.html", status, typed=fields_of(context.form), back=back, **values)
        page = self._environment.get_template("refused.html").render(root=root_of(request), **values)
        return HTMLResponse(page, status)


def _authorized(tx: StoreTransaction, context: ConsoleContext, page: ConsolePage) -> PerdureError | None:
    """Why the caller may not be answered; None if it may, with the read noted that its page is."""
    try:
        authorize(tx, context)
    except PerdureError as error:
        return error
    if page.shows:
        context.will_show(tx, page.shows)
    return None


async def static(request: Request) -> Response:
    """The script and the style sheet. Their addresses change with their content."""
    name = request.path_params["name"]
    if name not in FILES:
        raise NotFound(f"There is no file {name!r:.80}.")
    keep = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(static_file(name), media_type=FILES[name], headers=keep)


async def missing(request: Request) -> Response:
    raise NotFound(f"There is no page {request.url.path:.200}.", hint="Check the address, or begin with the inbox.")
