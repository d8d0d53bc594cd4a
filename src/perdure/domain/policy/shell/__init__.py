"""Commands of a shell: what they run, found in their text. Pure: no file is read and nothing is run."""

from perdure.domain.policy.shell.analysis import Analysis, analyse
from perdure.domain.policy.shell.part import UNKNOWN, CommandPart

__all__ = ["Analysis", "CommandPart", "UNKNOWN", "analyse"]
