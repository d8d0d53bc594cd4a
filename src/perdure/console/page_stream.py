"""A page whose beginning is sent before the rest of it is read.

The beginning needs only what the authorization has read: who asks, and for which session. What goes wrong after it is
shown within the page, because the status was sent.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import takewhile
from typing import Any

from jinja2 import Template
from markupsafe import Markup
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.domain.identity import Identity, acting
from perdure.errors import PerdureError

logger = logging.getLogger(__name__)
END = "\0"  # of the beginning, in a template: no text of a page contains it
Rest = Callable[[], Awaitable[Mapping[str, Any]]]


class PageStream(Response):
    """The page of a template with `values`, of which `rest` reads what only its second part needs."""

    media_type = "text/html"

    def __init__(
        self, template: Template, values: Mapping[str, Any], rest: Rest, *, by: str,
        failure: Callable[[PerdureError], str],
    ) -> None:  # fmt: skip
        self.status_code, self.background = 200, None
        self.init_headers(None)
        self._values: dict[str, Any] = {**template.globals, **values, "end_of_beginning": Markup(END)}
        self._pieces = _render(template, self._values)
        self._rest = rest
        self._by = Identity.parse(by)
        self._failure = failure

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        beginning = "".join(takewhile(lambda piece: piece != END, self._pieces))
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": beginning.encode(), "more_body": True})
        with acting(self._by):
            ending = await self._ending(str(scope["state"].get("request_id")))
        await send({"type": "http.response.body", "body": ending.encode(), "more_body": False})

    async def _ending(self, request_id: str) -> str:
        try:
            self._values |= await self._rest()
            return "".join(self._pieces)
        except PerdureError as error:
            return self._failure(error)
        except Exception as error:
            logger.error("Request %s failed.", request_id, exc_info=error)
            hint = f"The log of the service has the request {request_id}."
            return self._failure(PerdureError("The service failed.", hint=hint))


def _render(template: Template, values: dict[str, Any]) -> Iterator[str]:
    """The pieces of a page. Each block looks its values up when it begins, so some may come later."""
    return template.root_render_func(template.new_context(values, shared=True))
