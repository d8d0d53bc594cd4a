"""A folder that somebody else prepared, and a person who types commands in it."""

from __future__ import annotations

from tests.agent.tools.conftest import place, repository
from tests.cli.conftest import terminal, work

__all__ = ["place", "repository", "terminal", "work"]
