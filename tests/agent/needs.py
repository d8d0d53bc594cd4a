"""What the agent's tests need from the machine. Where everything is required it is installed, once; else they skip."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from perdure.agent import executables, sandbox
from perdure.agent.sandboxes import bubblewrap
from tests.no_skips import REQUIRED

INSTALL = "apt-get update && apt-get install --yes --no-install-recommends bubblewrap"


def need_bubblewrap() -> None:
    """Install bubblewrap where that is asked for; skip the test, with the line to type, where it is not."""
    if not shutil.which("bwrap"):
        _install()
        executables._find.cache_clear()
    if bubblewrap.found() is None:
        pytest.skip("bubblewrap is installed and does not work here: this machine forbids user namespaces")


def need_landlock() -> None:
    if not sandbox.landlock_works():
        pytest.skip("this kernel has no Landlock, or one that is too old")


def _install() -> None:
    if not REQUIRED:
        pytest.skip(f"bubblewrap is not installed: {INSTALL}")
    with open(Path(tempfile.gettempdir(), f"perdure-install-{os.getuid()}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if shutil.which("bwrap"):
            return
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(["/bin/sh", "-c", INSTALL], env=quiet, capture_output=True, text=True, timeout=100)
    assert shutil.which("bwrap"), f"bubblewrap cannot be installed here:\n{done.stdout}\n{done.stderr}"
