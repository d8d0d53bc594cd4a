"""The folder that the tools work in."""

from tests.agent.support.work_folder import own_home, repository, work_folder

__all__ = ["own_home", "work_folder", "repository"]
