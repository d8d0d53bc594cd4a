"""Requests of a worker to its service, from a thread of its own with its own event loop.

A request whose connection is lost is sent again, with the same id of its move, until the patience ends: the service
carries it out once. An urgent one, the renewal of a lease, has less patience: the next heartbeat sends another one.
What a token may not do cannot be done later either, so it ends a run like a store that is not there.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import httpx

from perdure.client.connection import NOTICED, ServiceCall, ServiceConnection, can_be_sent_again
from perdure.client.problems import error_of
from perdure.errors import AccessError, NotPermitted, PerdureError

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


class WorkerTransport:
    """Sends requests, from any thread. `connection` is used by the thread of this object only."""

    def __init__(self, connection: ServiceConnection) -> None:
        self.connection = connection
        self.loop = asyncio.new_event_loop()
        self._give_up_at = math.inf  # whatever the patience
        self._thread = threading.Thread(target=self._run, name="perdure-service", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin in the thread of the transport."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Block until it is done."""
        return self.begin(work).result()

    async def ask(self, call: ServiceCall, patience: float) -> httpx.Response:
        """The answer to a request; raises what the service tells of."""
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
        until, is_noticed = loop.time() + patience, False
        headers = {"Content-Type": call.media} if call.content is not None else {}
        while True:
            error: PerdureError
            try:
                answer = await self.connection.http.request(
                    call.method, call.path, params=call.query, content=call.content, headers=headers
                )
            except httpx.TransportError as lost:
                error = self.connection.lost(lost)
            else:
                if answer.is_success:
                    return answer
                error = error_of(answer.status_code, answer.content)
                if isinstance(error, AccessError) and answer.status_code in (401, 403):
                    raise NotPermitted(error.message, hint=error.hint)
                if not can_be_sent_again(error, answer.status_code):
                    raise error
            if loop.time() + pause > min(until, self._give_up_at):
                raise error
            if not (is_noticed or self.connection.has_answered) and pause >= NOTICED:
                is_noticed = True
                self.connection.notice(f"{error.message} Trying again for {until - loop.time():.0f} s.")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def limit_patience(self, seconds: float) -> None:
        """Send requests again for no longer than this from now on, in all."""
        self._give_up_at = min(self._give_up_at, self.loop.time() + seconds)

    def close(self) -> None:
        """Close the connections and end the thread. What is under way is given up."""
        if self._thread.is_alive():
            self.wait(self._finish())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()

    async def _finish(self) -> None:
        others = [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]
        for one in others:
            one.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.connection.close()
