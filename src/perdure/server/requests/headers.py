"""Headers of a request by their name in lower case, without an object around all of them."""

from __future__ import annotations

from starlette.types import Scope


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of a name; None if there is none."""
    return next((value.decode("latin-1") for one, value in scope["headers"] if one == name), None)


def headers(scope: Scope, name: bytes) -> list[str]:
    """All headers of a name."""
    return [value.decode("latin-1") for one, value in scope["headers"] if one == name]
