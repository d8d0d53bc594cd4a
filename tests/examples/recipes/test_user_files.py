"""The recipes that are a notebook and a test file, run as their readers run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.tidy.source import ROOT

RECIPES = ROOT / "examples" / "recipes"


@pytest.mark.slow
def test_the_tests_of_the_recipe_pass_under_plain_pytest(tmp_path: Path) -> None:
    line = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        str(RECIPES / "test_payment.py"),
    ]
    ended = subprocess.run(line, cwd=tmp_path, text=True, capture_output=True, timeout=300)
    assert "3 passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.slow
def test_the_notebook_counts_once_in_two_kernels(tmp_path: Path) -> None:
    outputs = []
    for _ in range(2):
        notebook = nbformat.read(RECIPES / "notebook.ipynb", as_version=4)  # type: ignore[no-untyped-call]
        NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
        outputs.append([one for cell in notebook.cells if cell.cell_type == "code" for one in cell.outputs])
    first, second = ([one.get("text") or one["data"]["text/plain"] for one in run] for run in outputs)
    assert first[:2] == ["counting\n", "'6 words'"]
    assert second[0] == "'6 words'"
