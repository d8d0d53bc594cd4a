"""Tools for tests of durable programs: a manual clock, a sink, crash sweeps. The demo uses them too."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from perdure.testing.clock import ManualClock

if TYPE_CHECKING:
    from perdure.testing.model import ScriptedModel
    from perdure.testing.sink import Sink, SinkClient, SinkError, SinkRefused
    from perdure.testing.sweep.report import Report
    from perdure.testing.sweep.sweep import crash_sweep

__all__ = ["ManualClock", "Report", "ScriptedModel", "Sink", "SinkClient", "SinkError", "SinkRefused", "crash_sweep"]

_HOME = {"Report": "sweep.report", "ScriptedModel": "model", "crash_sweep": "sweep.sweep"}


def __getattr__(name: str) -> Any:
    """Import a name on first use: a test that needs a clock does not load a server."""
    if name not in __all__:
        raise AttributeError(f"module 'perdure.testing' has no attribute {name!r}")
    value = getattr(import_module(f"perdure.testing.{_HOME.get(name, 'sink')}"), name)
    globals()[name] = value
    return value
