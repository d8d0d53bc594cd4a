"""The repository has complete lock files and contains nothing about one machine."""

import re
import subprocess
import tomllib

import pytest

from tests.tidy.source import ROOT, relative, text

LOCKS = ("requirements.lock", "tools/installer.lock")
MACHINE = re.compile(rb"(?<![\w.])/(?:work|root)/|/tmp/[b]ash")


def normal(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def test_no_file_contains_a_path_of_one_machine() -> None:
    listing = subprocess.check_output(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT)
    paths = [ROOT / name for name in listing.decode().split("\0") if name]
    assert paths
    assert [relative(path) for path in paths if path.is_file() and MACHINE.search(path.read_bytes())] == []


def test_every_declared_dependency_is_locked_with_a_hash() -> None:
    declared = tomllib.loads(text("pyproject.toml"))
    project = declared["project"]
    groups = [*project["optional-dependencies"].values(), *declared["dependency-groups"].values()]
    wanted = [*project["dependencies"], *(one for group in groups for one in group if isinstance(one, str))]
    locked = re.findall(r"^(\S+)==.*\\\n    --hash=sha256:", text("requirements.lock"), re.MULTILINE)
    assert {normal(requirement) for requirement in wanted} - set(locked) == set()


def test_locks_name_no_registry() -> None:
    assert [name for name in LOCKS if re.search(r"://|^--|@ ", text(name), re.MULTILINE)] == []


def test_pre_commit_runs_the_commands_of_make_check() -> None:
    makefile = text("Makefile")
    (recipe,) = re.findall(r"^check: .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    (docs,) = re.findall(r"^DOCS +:= (.*)", makefile, re.MULTILINE)
    lines = [re.sub(r"^\$\(call quietly,(.*)\)$", r"\1", line.strip()) for line in recipe.splitlines()]
    commands = [line.replace("$(DOCS)", docs).replace("$(BIN)", ".venv/bin") for line in lines]
    assert re.findall(r"^ +entry: (.*)", text(".pre-commit-config.yaml"), re.MULTILINE) == commands


def test_every_claimed_python_version_is_tested_in_the_workflow() -> None:
    claimed = re.findall(r"Programming Language :: Python :: (3\.\d+)", text("pyproject.toml"))
    workflow = text(".github/workflows/ci.yml")
    (tested,) = re.findall(r"python: \[(.*)\]", workflow)
    assert claimed
    assert set(claimed) <= set(re.findall(r'"(.*?)"', tested))
    assert "run: .ci/run\n" in workflow


@pytest.mark.parametrize("path", ["work", "root"])
def test_path_of_one_machine_is_found(path: str) -> None:
    assert MACHINE.search(f'open("/{path}/notes")'.encode())
    assert not MACHINE.search(f"https://example.org/{path}/notes".encode())
