"""A model for tests: it replies from a script, and replies the same again after a crash."""

from __future__ import annotations

from perdure.agent.models.scripted import Scripted

__all__ = ["ScriptedModel"]


class ScriptedModel(Scripted):
    """Turns as dictionaries or texts, or a function `(Request) -> dict`; see `perdure.agent.models.scripted`."""
