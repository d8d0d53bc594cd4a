"""The wheel, built and installed into clean environments: with its own dependencies alone, and with each extra.

Dependencies are linked from the environment of the tests, so no registry is needed. The installer then checks that
everything the wheel declares is there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tidy.source import ROOT, text

pytestmark = pytest.mark.slow
UV = ROOT / ".tools" / "bin" / "uv"
MODULES = {"opentelemetry-sdk": "opentelemetry.sdk", "prometheus-client": "prometheus_client"}
EXTRAS: dict[str, list[str]] = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
IMPORT_ALL = """
import importlib, pkgutil, perdure
for module in pkgutil.walk_packages(perdure.__path__, "perdure."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
LOAD_PAGES = """
from perdure.console.environment import FILES, make_environment, static_file
made = make_environment()
print(len([made.get_template(name) for name in made.list_templates()]))
assert all(static_file(name) for name in FILES)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (found,) = folder.glob("*.whl")
    return found


def environment(home: Path) -> dict[str, str]:
    """The environment of a user who has set nothing."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_", "PYTHON", "XDG_"))}
    return kept | {"HOME": str(home)}


def call(*command: str | Path, cwd: Path) -> str:
    ended = subprocess.run(command, cwd=cwd, env=environment(cwd), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def closure(name: str, extras: frozenset[str]) -> set[str]:
    """The distributions that this one needs here, itself excluded."""
    found = set[str]()
    waiting = [(name, extras)]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        for line in distribution(name).requires or ():
            wanted = Requirement(line)
            if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
                needed = canonicalize_name(wanted.name)
                found.add(needed)
                if (one := (needed, frozenset(wanted.extras))) not in seen:
                    seen.add(one)
                    waiting.append(one)
    return found


def install(wheel: Path, folder: Path, *extras: str) -> Path:
    """A new environment that has the wheel and what it needs with these extras; returns its folder of programs."""
    call(UV, "venv", "--quiet", "--python", sys.executable, folder, cwd=folder.parent)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in closure("perdure", frozenset(extras)):
        for file in distribution(name).files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                (site / file).symlink_to(Path(str(file.locate())))
    call(UV, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", folder, wheel, cwd=folder.parent)
    call(UV, "pip", "check", "--quiet", "--python", folder, cwd=folder.parent)
    return folder / "bin"


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment without any extra."""
    return install(wheel, tmp_path_factory.mktemp("environments") / "plain")


def test_wheel_works_without_any_extra(plain: Path, tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", text("README.md"), re.MULTILINE | re.DOTALL)
    (tmp_path / "review.py").write_text(code, encoding="utf-8")
    assert call(plain / "python", "review.py", cwd=tmp_path) == "posting only style\n1\n"
    assert "review-7" in call(plain / "perdure", "ls", "--store", "review.db", cwd=tmp_path)
    assert call(plain / "python", "-m", "perdure", "--version", cwd=tmp_path).startswith("perdure ")
    found = call(plain / "python", "-c", "from perdure import *; import perdure; print(perdure.__file__)", cwd=tmp_path)
    assert found.startswith(str(plain.parent))


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("postgres", ["ls", "--store", "postgresql://127.0.0.1:1/none"]),
        ("anthropic", ["run", "say hello", "--model", "anthropic:some", "--store", "some.db", "--json"]),
        ("openai", ["run", "say hello", "--model", "openai:some", "--store", "some.db", "--json"]),
    ],
)
def test_missing_extra_is_named(plain: Path, tmp_path: Path, extra: str, arguments: list[str]) -> None:
    keys = {"ANTHROPIC_API_KEY": "none", "OPENAI_API_KEY": "none"}
    settings = environment(tmp_path) | keys
    ended = subprocess.run(
        [plain / "perdure", *arguments],
        cwd=tmp_path,
        env=settings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert f"pip install 'perdure[{extra}]'" in ended.stderr


@pytest.mark.parametrize("extra", EXTRAS)
def test_wheel_installs_with_one_extra(wheel: Path, tmp_path: Path, extra: str) -> None:
    programs = install(wheel, tmp_path / extra, extra)
    names = (Requirement(line).name for line in EXTRAS[extra])
    packages = ", ".join(MODULES.get(name, name) for name in names)
    call(programs / "python", "-c", f"import perdure, {packages}", cwd=tmp_path)


def test_wheel_has_the_pages_of_the_console(wheel: Path, tmp_path: Path) -> None:
    programs = install(wheel, tmp_path / "console", "server")
    assert int(call(programs / "python", "-c", LOAD_PAGES, cwd=tmp_path)) > 8


def test_every_module_can_be_imported_with_all_extras(wheel: Path, tmp_path: Path) -> None:
    programs = install(wheel, tmp_path / "full", *EXTRAS)
    call(programs / "python", "-c", IMPORT_ALL, cwd=tmp_path)
