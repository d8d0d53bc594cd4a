"""A pytest plugin: programs of the system that tests need, and the packages that bring them.

Where everything is required they are installed before the first test, so that every test finds the same machine.
Elsewhere a test that needs one is skipped, with the line to type.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.no_skips import REQUIRED

PACKAGES = {
    "bwrap": "bubblewrap",
    "chromium": "chromium",
    "git": "git",
    "pgbouncer": "pgbouncer",
    "strace": "strace",
    "systemd-analyze": "systemd",
}  # by the program


def installation(*packages: str) -> str:
    """The line that installs them."""
    return f"apt-get update && apt-get install --yes --no-install-recommends {' '.join(packages)}"


def need(program: str) -> None:
    """Skip the test where a program is missing."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: {installation(PACKAGES[program])}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if not REQUIRED or not missing or hasattr(config, "workerinput"):
        return
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(["/bin/sh", "-c", installation(*missing)], env=quiet, capture_output=True, text=True)
    if done.returncode:
        raise pytest.UsageError(f"{', '.join(missing)} cannot be installed here:\n{done.stdout}\n{done.stderr}")
