"""A model for tests: it says what the test wrote down, and says it again to a process that was killed."""

from __future__ import annotations

from perdure.agent.models.scripted import Scripted

__all__ = ["ScriptedModel"]


class ScriptedModel(Scripted):
    """Turns as dictionaries or texts, or a function `(Request) -> dict`; see `perdure.agent.models.scripted`."""
