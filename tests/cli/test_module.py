"""`python -m perdure` is the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from perdure import __version__


def test_package_runs_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perdure", "--version"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout == f"perdure {__version__}\n"


def test_modules_of_the_current_folder_do_not_replace_ours(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('a module of the folder ran')\n")
    command = [sys.executable, "-m", "perdure", "--version"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
