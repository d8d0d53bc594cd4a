"""What the agent's tests need from the machine; where it is missing they skip."""

from __future__ import annotations

import pytest

from perdure.agent.commands import bubblewrap, sandbox
from tests.packages import need


def need_bubblewrap() -> None:
    need("bwrap")
    if bubblewrap.find() is None:
        pytest.skip("bubblewrap is installed and does not work here: this machine forbids user namespaces")


def need_landlock() -> None:
    if not sandbox.landlock_works():
        pytest.skip("this kernel has no Landlock, or one that is too old")
