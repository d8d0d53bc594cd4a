"""What tests of durable programs need: a manual clock, real servers, real failures. Only the demo uses it too."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from perdure.testing.clock import ManualClock

if TYPE_CHECKING:
    from perdure.testing.model import ScriptedModel
    from perdure.testing.sink import Sink, SinkClient, SinkError, SinkRefused
    from perdure.testing.sweep.sweep import Report, crash_sweep

__all__ = ["ManualClock", "Report", "ScriptedModel", "Sink", "SinkClient", "SinkError", "SinkRefused", "crash_sweep"]

_HOME = {"Report": "sweep.sweep", "ScriptedModel": "model", "crash_sweep": "sweep.sweep"}


def __getattr__(name: str) -> Any:
    """Import what is asked for: whoever needs a clock needs no server."""
    if name not in __all__:
        raise AttributeError(f"module 'perdure.testing' has no attribute {name!r}")
    value = getattr(import_module(f"perdure.testing.{_HOME.get(name, 'sink')}"), name)
    globals()[name] = value
    return value
