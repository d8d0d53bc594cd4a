"""A folder prepared by an attacker, and a user who runs commands in it."""

from __future__ import annotations

from tests.agent.tools.conftest import place, repository
from tests.cli.conftest import terminal, work

__all__ = ["place", "repository", "terminal", "work"]
