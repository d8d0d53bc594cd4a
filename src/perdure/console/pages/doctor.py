"""The doctor: the depth that the deployment reaches, what it needs for the next, and findings."""

from __future__ import annotations

from starlette.responses import Response

from perdure.console.page import ConsoleContext, ConsolePage
from perdure.domain.caller import Verb
from perdure.server.operation import Touch


async def show(context: ConsoleContext) -> Response:
    return context.show("doctor.html", report=await context.runtime.doctor())


PAGES = (ConsolePage("/doctor", Verb.READ_DOCTOR, Touch.STORE, show),)
