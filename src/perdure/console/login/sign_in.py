"""Sign-in with a token, with OpenID Connect, or as the user that the kernel or a trusted proxy names; sign-out.

The token is checked once and not kept: the browser gets a new secret, and the store what it stands for.
"""

from __future__ import annotations

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from perdure.console.login import cookies
from perdure.console.login.openid import OpenId
from perdure.console.page import local_path, read_form, root_of
from perdure.domain.caller import Caller
from perdure.domain.identity import Identity
from perdure.errors import NotAllowed, NotAuthenticated, NotFound
from perdure.runtime.runtime import Runtime
from perdure.server.settings import ServerSettings
from perdure.store.move import StoreTransaction
from perdure.store.moves import sign_in, token


class SignIns:
    """Who a browser is signed in as, and how that begins and ends."""

    def __init__(self, runtime: Runtime, settings: ServerSettings, environment: Environment) -> None:
        self._runtime = runtime
        self._settings = settings
        self._environment = environment
        self._openid = OpenId(settings)
        self._own = f"os:{settings.own_uid}"

    def caller(self, tx: StoreTransaction, request: Request, secret: str) -> Caller | None:
        """Who is signed in with the secret of a browser."""
        found = sign_in.get(tx, cookies.stored(secret))
        if found is None:
            return None
        if self._is_vouched(found.identity) and found.identity != self._vouched(request):
            return None  # such a sign-in is for that socket, or for that user of the proxy, only
        return sign_in.caller_of(tx, found.identity, own=self._own)

    async def who_is(self, identity: str) -> Caller | None:
        """What an identity may do now."""
        return await self._runtime.store.read(sign_in.caller_of, identity, own=self._own)

    async def show(self, request: Request) -> Response:
        """The page with the form."""
        return await self.form(request)

    async def form(self, request: Request, problem: str = "", status: int = 200) -> Response:
        """The form, which begins with a secret for this browser."""
        secret = cookies.secret_of(request, self._settings)
        fresh = secret is None
        secret = secret or cookies.new()
        back = local_path(request.query_params.get("next", "")) or f"{root_of(request)}/"
        vouched = self._vouched(request)
        peer = None if vouched is None else await self.who_is(vouched)
        page = self._environment.get_template("sign_in.html").render(
            root=root_of(request), form_token=cookies.form_token(secret), back=back, problem=problem, peer=peer,
            vouched=vouched, oidc=bool(self._settings.oidc_issuer),
        )  # fmt: skip
        answer = HTMLResponse(page, status)
        if fresh:
            cookies.put(answer, request, self._settings, secret)
        return answer

    async def sign_in(self, request: Request) -> Response:
        """Sign in with the token of the form."""
        form = await read_form(request)
        cookies.check_form(request, self._settings, form.get("form_token", ""))
        if form.get("as") == "peer":
            vouched = self._vouched(request)
            who = None if vouched is None else await self.who_is(vouched)
        else:
            who = await self._runtime.store.read(token.authenticate, form.get("token", "").strip())
        if who is None:
            return await self.form(request, "This token is not valid: it may have expired, or it was revoked.", 401)
        if who.token_id is not None:
            await self._runtime.store.write(token.note_use([who.token_id]))
        answer = RedirectResponse(local_path(form.get("back", "")) or f"{root_of(request)}/", 303)
        await self.begin(request, answer, who.identity)
        return answer

    async def begin(self, request: Request, answer: Response, identity: str) -> None:
        """Let the browser act for an identity, with a new secret: one that was planted before is worth nothing."""
        secret = cookies.new()
        await self._runtime.store.write(sign_in.begin(cookies.stored(secret), identity))
        cookies.put(answer, request, self._settings, secret)

    async def sign_out(self, request: Request) -> Response:
        """End the sign-in of this browser, in the store and in the browser."""
        form = await read_form(request)
        cookies.check_form(request, self._settings, form.get("form_token", ""))
        secret = cookies.secret_of(request, self._settings)
        if secret is None:
            raise NotAuthenticated("You are not signed in.")
        await self._runtime.store.write(sign_in.end(cookies.stored(secret)))
        answer = RedirectResponse(f"{root_of(request)}/sign-in", 303)
        cookies.remove(answer, request, self._settings)
        return answer

    async def begin_openid(self, request: Request) -> Response:
        return await self._provider().begin(request)

    async def finish_openid(self, request: Request) -> Response:
        """Sign in whom the provider has signed in, if the store knows the person."""
        provider = self._provider()
        identity, back = await provider.finish(request)
        if await self.who_is(identity) is None:
            raise NotAllowed(
                f"{identity} is no login of a principal.",
                hint=f"An owner adds it: `perdure principals set NAME --login {identity}`.",
            )
        answer = RedirectResponse(local_path(back) or f"{root_of(request)}/", 303)
        await self.begin(request, answer, identity)
        provider.forget(request, answer)
        return answer

    def _provider(self) -> OpenId:
        if not self._settings.oidc_issuer:
            raise NotFound("People do not sign in with OpenID Connect here.")
        return self._openid

    def _is_vouched(self, identity: str) -> bool:
        """Whether every request must carry this identity, besides the cookie."""
        return identity.startswith("os:") or (bool(self._settings.user_header) and identity.startswith("oidc:"))

    def _vouched(self, request: Request) -> str | None:
        """Who the request is from, as the kernel or the proxy says."""
        if self._settings.user_header and self._settings.behind_proxy:
            given = request.headers.getlist(self._settings.user_header)
            return str(Identity.parse(f"oidc:{given[0]}")) if len(given) == 1 and given[0] else None
        found: Caller | None = request.state.caller
        is_peer = found is not None and found.token_id is None and found.identity.startswith("os:")
        return found.identity if found is not None and is_peer else None
