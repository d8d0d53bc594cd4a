"""With `PERDURE_REQUIRE=all`, a skipped test is a failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

ONE_TEST = """
import pytest

@pytest.mark.skip(reason="no server")
def test_skipped(): ...

@pytest.mark.xfail(reason="known", strict=True)
def test_known_to_fail(): raise AssertionError
"""
WHOLE_MODULE = 'import pytest; pytest.skip("no server", allow_module_level=True)'


@pytest.mark.parametrize(("required", "summary"), [(False, "2 skipped, 1 xfailed"), (True, "1 xfailed, 2 errors")])
def test_skip_is_a_failure_when_everything_is_required(tmp_path: Path, required: bool, summary: str) -> None:
    (tmp_path / "test_one.py").write_text(ONE_TEST, encoding="utf-8")
    (tmp_path / "test_whole.py").write_text(WHOLE_MODULE, encoding="utf-8")
    free = {name: value for name, value in os.environ.items() if name not in {"CI", "PERDURE_REQUIRE"}}
    options = [f"--config-file={ROOT / 'pyproject.toml'}", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, tmp_path],
        env=free | ({"PERDURE_REQUIRE": "all"} if required else {}),
        capture_output=True,
        text=True,
    )
    assert summary in ran.stdout
    assert (ran.returncode == 0) != required
    assert ("nothing may be skipped here, and this was" in ran.stdout) == required
