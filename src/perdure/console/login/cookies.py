"""The cookie of a browser, the form tokens that follow from it, and where a request may come from.

cookie       a random secret, not readable by scripts, sent to this service only, and never with requests that other
             sites cause. The store has its digest; a browser that is not signed in has one too, for its forms
form token   a digest of the secret. Every form carries it, so a page of another site cannot send one
origin       what changes something must come from a page of this service
"""

from __future__ import annotations

import hmac
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from perdure.errors import NotAllowed
from perdure.ids import digest, new_secret
from perdure.server.settings import ServerSettings

PLAIN, SECURE = "perdure", "__Host-perdure"
_FLAGS: dict[str, Any] = {"httponly": True, "samesite": "strict", "path": "/"}
OURS = ("same-origin", "none", "")  # Sec-Fetch-Site of a request that this service or the person caused


def is_secure(request: Request, settings: ServerSettings) -> bool:
    """Whether the browser reaches the service by TLS, here or at the proxy."""
    return request.url.scheme == "https" or settings.behind_proxy


def name(request: Request, settings: ServerSettings) -> str:
    return SECURE if is_secure(request, settings) else PLAIN


def secret_of(request: Request, settings: ServerSettings) -> str | None:
    """The secret of the browser; None if it has none yet."""
    return request.cookies.get(name(request, settings)) or None


def new() -> str:
    return new_secret().hex()


def put(response: Response, request: Request, settings: ServerSettings, secret: str) -> None:
    """Give the browser a secret. It forgets it when it is closed; the store forgets it earlier."""
    response.set_cookie(name(request, settings), secret, secure=is_secure(request, settings), **_FLAGS)


def remove(response: Response, request: Request, settings: ServerSettings) -> None:
    response.delete_cookie(name(request, settings), secure=is_secure(request, settings), **_FLAGS)


def stored(secret: str) -> str:
    """What the store has of a secret."""
    return digest(f"sign-in {secret}")


def form_token(secret: str) -> str:
    """What every form of this browser carries."""
    return digest(f"form {secret}")


def check_form(request: Request, settings: ServerSettings, given: str) -> None:
    """Refuse a form that this service did not give to this browser."""
    secret = secret_of(request, settings)
    if secret is None or not hmac.compare_digest(form_token(secret).encode(), given.encode()):
        raise NotAllowed("This form is not valid any more.", hint="Load the page again and repeat it.")


def check_origin(request: Request, settings: ServerSettings) -> None:
    """Refuse a change that a page of another site, or of another port, asks for."""
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    is_ours = request.headers.get("sec-fetch-site", "") in OURS
    if origin is not None and not settings.behind_proxy:  # a proxy may pass another host
        is_ours = is_ours and urlsplit(origin).netloc == host
    if not is_ours:
        raise NotAllowed("This request comes from another site.", hint="Use the pages of this service.")


def comes_from_elsewhere(request: Request) -> bool:
    """Whether a page of another site led here. The browser then withheld the cookie."""
    return request.headers.get("sec-fetch-site", "") not in OURS
