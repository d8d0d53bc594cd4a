"""The errors of the service, as the errors that the library raises where the store is."""

from __future__ import annotations

from functools import cache

import msgspec

from perdure import errors
from perdure.errors import PerdureError, StoreUnavailable


class ProblemDocument(msgspec.Struct, frozen=True):
    """What an answer says about an error."""

    code: str
    detail: str
    hint: str = ""
    retry: bool = False
    request_id: str = ""


def error_of(status: int, content: bytes) -> PerdureError:
    """The error that an answer tells of. What is no problem document comes from something between, such as a proxy."""
    try:
        found = msgspec.json.decode(content, type=ProblemDocument)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return StoreUnavailable(
            f"The service answered with status {status}, and not as Perdure does.",
            hint="Check the address.",
            status=status,
        )
    kind = by_code().get(found.code, PerdureError)
    made = kind(found.detail, hint=found.hint or None, status=status, request_id=found.request_id)
    made.retry = found.retry
    if kind is PerdureError:
        made.code = found.code  # type: ignore[misc]  # of a newer service
    return made


@cache
def by_code() -> dict[str, type[PerdureError]]:
    """The class of each code."""
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, PerdureError)]
    return {kind.code: kind for kind in reversed(kinds)}  # of two classes with one code, the first, which is the base
