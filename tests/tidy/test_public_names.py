"""The comparison with the last release sees what breaks a program, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.public_names import breakages, last_release

EXPORTS = "from perdure.engine import Runtime, run\nfrom perdure import testing\n__all__ = ['Runtime', 'run']\n"
ENGINE = """
from perdure.requests import Requests
from perdure.runtime.part_method import PartMethod
def run(name, wait=0): ...
class Runtime:
    send = PartMethod(Requests.send)
"""
FILES = {
    "__init__.py": EXPORTS,
    "engine.py": ENGINE,
    "requests.py": "class Requests:\n    def send(self, name, *, mode=None): ...\n",
    "runtime/__init__.py": "",
    "runtime/part_method.py": "class PartMethod: ...\n",
    "testing/__init__.py": "def check(): ...\n",
}


def git(root: Path, *words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of our name with one release."""
    folder = tmp_path / "src" / "perdure"
    for name, code in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(code)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "Release")
    return folder


def test_repository_without_a_tag_has_no_release(package: Path) -> None:
    assert last_release(package) is None


def test_moved_private_module_is_no_breaking_change(package: Path) -> None:
    git(package, "tag", "v0.1.0")
    (package / "engine.py").rename(package / "motor.py")
    (package / "__init__.py").write_text(EXPORTS.replace("engine", "motor"))
    assert breakages(package.parents[1], "v0.1.0") == []


def test_verb_and_plain_method_are_the_same(package: Path) -> None:
    git(package, "tag", "v0.1.0")
    plain = ENGINE.replace("send = PartMethod(Requests.send)", "def send(self, name, *, mode=None): ...")
    (package / "engine.py").write_text(plain)
    assert breakages(package.parents[1], "v0.1.0") == []


@pytest.mark.parametrize(
    ("name", "code", "broken"),
    [
        ("__init__.py", EXPORTS.replace(", run", "").replace(", 'run'", ""), "run"),
        ("engine.py", ENGINE.replace(", wait=0", ""), "wait"),
        ("engine.py", ENGINE.replace("send = PartMethod(Requests.send)", "pass"), "send"),
        ("requests.py", "class Requests:\n    def send(self, name): ...\n", "mode"),
        ("testing/__init__.py", "", "check"),
    ],
)
def test_removed_public_name_is_a_breaking_change(package: Path, name: str, code: str, broken: str) -> None:
    git(package, "tag", "v0.1.0")
    (package / name).write_text(code)
    assert last_release(package) == "v0.1.0"
    (line,) = breakages(package.parents[1], "v0.1.0")
    assert broken in line
