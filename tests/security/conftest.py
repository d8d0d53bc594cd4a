"""A folder prepared by an attacker, and a user who runs commands in it."""

from __future__ import annotations

from tests.agent.support.work_folder import repository, work_folder
from tests.cli.conftest import terminal, work

__all__ = ["work_folder", "repository", "terminal", "work"]
