"""An older Perdure: the last commit of this repository before schema 8, built as a wheel and unpacked."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
NEWER = "src/perdure/store/migrations/0008_control.sql"


def build_old_version(folder: Path) -> Path:
    """Build the wheel and unpack it; returns the folder to put first on the path."""
    commit = _last_before(NEWER)
    if commit is None:
        pytest.skip("this copy of the repository has no history, so an older version cannot be built")
    source, wheels, package = folder / "source", folder / "wheels", folder / "package"
    source.mkdir()
    archive = folder / "source.tar"
    _git("archive", "--output", str(archive), commit)
    with tarfile.open(archive) as file:
        file.extractall(source, filter="data")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
    [wheel] = wheels.iterdir()
    with zipfile.ZipFile(wheel) as content:
        content.extractall(package)
    return package


def _last_before(path: str) -> str | None:
    """The parent of the commit that added a file; None in a copy without history."""
    try:
        added = _git("log", "--diff-filter=A", "--format=%H", "--", path).split()
        return _git("rev-parse", "--verify", "--quiet", f"{added[-1]}^").strip() if added else None
    except (subprocess.CalledProcessError, FileNotFoundError):
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True, timeout=180)
    return done.stdout


def run_old(package: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the older Perdure."""
    environment = os.environ | {"PYTHONPATH": f"{package}:{ROOT}", "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=180, check=False
    )
