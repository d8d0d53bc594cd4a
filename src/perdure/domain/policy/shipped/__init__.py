"""The policies that ship: the default, and the profiles `read-only`, `workspace` and `full`.

A profile is a complete text: its own rules, those on commands that only read, those on commands that a person should
see, and those on destructive commands, which every profile has. People can copy and change it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import get_args

from perdure.domain.literals import ProfileName
from perdure.domain.policy.document import PolicyDocument
from perdure.domain.policy.text import parse
from perdure.errors import NotFound

PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)
_PARTS: dict[str, tuple[str, ...]] = {
    "default": ("default", "harmless", "asked", "commands"),
    "read-only": ("read-only", "harmless", "commands"),
    "workspace": ("workspace", "harmless", "asked", "commands"),
    "full": ("full", "asked", "commands"),
}


@lru_cache(maxsize=8)
def shipped_text(profile: str = "default") -> str:
    """The text of a profile."""
    if profile not in PROFILES:
        raise NotFound(f"There is no profile {profile}.", hint=f"The profiles are {', '.join(PROFILES)}.")
    folder = files(__name__)
    return "\n".join((folder / f"{name}.toml").read_text("utf-8") for name in _PARTS[profile])


@lru_cache(maxsize=8)
def shipped(profile: str = "default") -> PolicyDocument:
    """The document of a profile."""
    return parse(shipped_text(profile), f"the policy {profile}")
