"""The programs on the documentation pages run as described."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def block(page: str, language: str, nth: int = 0) -> str:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return found[nth]


@pytest.mark.slow
def test_tutorial_program_posts_once_after_its_kill(tmp_path: Path) -> None:
    (tmp_path / "review.py").write_text(block("tutorial.md", "python"))
    command = [sys.executable, "review.py"]
    killed = subprocess.run([*command, "crash"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len((tmp_path / "comments.jsonl").read_text().splitlines()) == 1

    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.stdout == "comment 1: The diff of 7 is fine.\n", again.stderr
    assert len((tmp_path / "comments.jsonl").read_text().splitlines()) == 1


def test_every_link_between_pages_has_a_target() -> None:
    pages = [*DOCS.rglob("*.md"), *(DOCS.parent / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"))]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.slow
def test_agent_of_the_guide_answers_and_acts_once(tmp_path: Path) -> None:
    (tmp_path / "triage.py").write_text(block("how-to/write-an-agent.md", "python"))
    command = [sys.executable, "triage.py"]
    first = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert first.stdout == "It is a duplicate.\nClosed.\n"
    assert first.stderr.startswith("closing 7 under key ")
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (again.stdout, again.stderr) == (first.stdout, "")


def test_typed_answer_of_the_guide_is_printed(tmp_path: Path) -> None:
    (tmp_path / "review.py").write_text(block("how-to/write-an-agent.md", "python", 1))
    command = [sys.executable, "review.py"]
    for _ in range(2):
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert ran.stdout == "True review-1 $0.00\n"
