"""The outside as the user's own probe shows it, in place of the sink's log.

The probe is a function of no arguments that returns a list of everything that is outside now: rows of a test database,
files, messages of a staging account. What a trial left is what is there afterwards and was not there before, so trials
run one at a time. Requests that repeat an effect are not seen this way, only what they leave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.evaluation.own_tools.process import BEFORE, new_items
from perdure.testing.sink import Sink, SinkClient


class ObservedOutside(Sink):
    """A sink that only carries notes between the processes of a trial; what is outside comes from `observe`."""

    def __init__(self, observe: Callable[[], list[Any]]) -> None:
        super().__init__()
        self._observe = observe
        self._before: dict[str, list[Any]] = {}

    def run(self, name: str | None = None) -> SinkClient:
        client = super().run(name)
        if name is not None and name not in self._before:
            self._before[name] = self._observe()
            client.post(None, self._before[name], path=BEFORE)
        return client

    def log(self, run: str = "main") -> list[dict[str, Any]]:
        new = new_items(self._before.get(run, []), self._observe())
        return [{"what": "kept", "id": str(n), "path": "observed", "body": item} for n, item in enumerate(new)]
