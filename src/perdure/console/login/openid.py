"""Sign-in with OpenID Connect: the authorization code flow with PKCE, by Authlib. It needs the extra `oidc`.

    begin      to the provider, with a state, a nonce and a challenge; a cookie of ten minutes has them too
    callback   the state fits; the code and the verifier become an ID token. Its signature, issuer, audience, nonce and
               times are checked. Its subject is the login `oidc:SUBJECT` of a principal

The provider says who a person is. What the person may do is decided here: a subject that is no login of a principal
signs in nowhere. Access tokens are not used and not kept.
"""

from __future__ import annotations

import base64
import hmac
import logging
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from perdure.console.login import cookies
from perdure.console.page import local_path, root_of
from perdure.domain.identity import Identity
from perdure.errors import ConfigError, NotAuthenticated
from perdure.server.settings import ServerSettings

logger = logging.getLogger(__name__)
PATH = "/sign-in/oidc"
CALLBACK = f"{PATH}/callback"
TIME = 600  # seconds that a person may take at the provider
PATIENCE = 10.0  # seconds for one request to the provider
SIGNED_BY = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")


class LoginState(msgspec.Struct, frozen=True):
    """What the answer of the provider must match; in the cookie."""

    state: str
    nonce: str
    verifier: str
    back: str


class OpenId:
    """The provider of the service."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._client: Any = None

    async def begin(self, request: Request) -> Response:
        """Send the browser to the provider."""
        back = local_path(request.query_params.get("next", "")) or f"{root_of(request)}/"
        try:
            asked = await (await self._provider()).create_authorization_url(self._callback(request))
        except Exception as error:
            raise self._failed(error) from error
        made = LoginState(asked["state"], asked["nonce"], asked["code_verifier"], back)
        answer = RedirectResponse(asked["url"], 303)
        value = base64.urlsafe_b64encode(msgspec.json.encode(made)).decode()
        answer.set_cookie(
            self._cookie(request), value, max_age=TIME, path="/", httponly=True, samesite="lax",
            secure=cookies.is_secure(request, self._settings),
        )  # fmt: skip
        return answer

    async def finish(self, request: Request) -> tuple[str, str]:
        """The identity that the provider vouches for, and the page that was wanted."""
        begun = self._login_state(request)
        given = request.query_params
        if begun is None or not hmac.compare_digest(begun.state.encode(), given.get("state", "").encode()):
            raise NotAuthenticated("This sign-in was not begun in this browser.", hint="Begin again.", status=403)
        if given.get("iss") not in (None, self._settings.oidc_issuer):
            raise NotAuthenticated("Another provider answered.", hint="Begin again.", status=403)
        if not given.get("code"):
            said = given.get("error_description") or given.get("error") or "no code"
            raise NotAuthenticated(f"The provider refused: {said:.200}.", hint="Begin again.", status=403)
        subject = await self._subject(request, begun, given["code"])
        return str(Identity.parse(f"oidc:{subject}")), begun.back

    def forget(self, request: Request, answer: Response) -> None:
        """The cookie counts once."""
        answer.delete_cookie(
            self._cookie(request), path="/", httponly=True, samesite="lax",
            secure=cookies.is_secure(request, self._settings),
        )  # fmt: skip

    async def _subject(self, request: Request, begun: LoginState, code: str) -> str:
        try:
            provider = await self._provider()
            token = await provider.fetch_access_token(
                self._callback(request), code=code, code_verifier=begun.verifier, grant_type="authorization_code"
            )
            wanted = {
                "iss": {"essential": True, "value": self._settings.oidc_issuer},
                "aud": {"essential": True, "value": self._settings.oidc_client},
                "sub": {"essential": True},
            }
            claims = await provider.parse_id_token(token, begun.nonce, claims_options=wanted, leeway=60)
        except Exception as error:
            raise self._failed(error) from error
        if claims is None or not isinstance(claims.get("sub"), str):
            raise NotAuthenticated("The provider gave no ID token.", hint="Does the client have the scope openid?")
        return str(claims["sub"])

    async def _provider(self) -> Any:
        """The client of the provider; only signatures that a public key verifies are accepted."""
        if self._client is None:
            from authlib.integrations.starlette_client import OAuth

            made = OAuth().register(
                "provider", client_id=self._settings.oidc_client, client_secret=self._secret(),
                server_metadata_url=f"{self._settings.oidc_issuer.rstrip('/')}/.well-known/openid-configuration",
                client_kwargs={
                    "scope": "openid", "code_challenge_method": "S256", "timeout": PATIENCE,
                    **({} if self._settings.oidc_secret_file else {"token_endpoint_auth_method": "none"}),
                },
            )  # fmt: skip
            metadata = await made.load_server_metadata()
            if metadata.get("issuer") != self._settings.oidc_issuer:
                raise ConfigError(f"The provider says that it is {metadata.get('issuer')!r:.200}.")
            offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
            metadata["id_token_signing_alg_values_supported"] = [one for one in offered if one in SIGNED_BY]
            self._client = made
        return self._client

    def _secret(self) -> str | None:
        path = self._settings.oidc_secret_file
        return None if not path else Path(path).read_text(encoding="utf-8").strip()

    def _callback(self, request: Request) -> str:
        own = self._settings.public_url or f"{request.url.scheme}://{request.headers['host']}{root_of(request)}"
        return own.rstrip("/") + CALLBACK

    def _cookie(self, request: Request) -> str:
        return f"{cookies.name(request, self._settings)}-oidc"

    def _login_state(self, request: Request) -> LoginState | None:
        try:
            text = base64.urlsafe_b64decode(request.cookies.get(self._cookie(request), ""))
            return msgspec.json.decode(text, type=LoginState)
        except (ValueError, msgspec.DecodeError):
            return None

    @staticmethod
    def _failed(error: Exception) -> NotAuthenticated:
        """An error of the provider, or of what it sent. The log has only its kind: it may contain codes."""
        if isinstance(error, ConfigError):
            logger.error("OpenID Connect: %s", error.message)
        else:
            logger.error("OpenID Connect failed: %s", type(error).__name__)
        return NotAuthenticated(
            "The sign-in at the provider failed.", hint="The log of the service has the reason.", status=403
        )
