"""The version of the code of a process, and the digests of its programs and tools."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Runtime
from perdure.runtime.deploy.code_version import current_version, files_digest, source_digest
from perdure.runtime.workers.liveness import machine
from perdure.store.moves import worker
from perdure.store.store import Store

SOURCE = "def act() -> int:\n    return 1\n"


@pytest.fixture
def fresh_modules() -> Iterator[None]:
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        del sys.modules[name]


def a_module(name: str, path: Path, text: str = SOURCE) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    inside = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=inside)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("fresh_modules")
def test_equal_files_in_other_folders_are_the_same_version(tmp_path: Path) -> None:
    first, again = (files_digest([a_module("flows", tmp_path / at / "flows.py").act]) for at in ("one", "two"))
    other = files_digest([a_module("flows", tmp_path / "three" / "flows.py", SOURCE + "# changed\n").act])
    assert first == again != other


@pytest.mark.usefixtures("fresh_modules")
def test_change_of_another_file_of_the_package_is_another_version(tmp_path: Path) -> None:
    package = a_module("flows", tmp_path / "flows" / "__init__.py")
    before = files_digest([package.act])
    (tmp_path / "flows" / "parts").mkdir()
    (tmp_path / "flows" / "parts" / "help.py").write_text("x = 1\n")
    assert files_digest([package.act]) != before


@pytest.mark.usefixtures("fresh_modules")
def test_digest_of_a_function_ignores_blank_lines_and_other_functions(tmp_path: Path) -> None:
    one = a_module("flows", tmp_path / "one.py").act
    same = a_module("flows", tmp_path / "two.py", "\n\ndef act() -> int:  \n\n    return 1\n\n\ndef other(): ...\n").act
    other = a_module("flows", tmp_path / "three.py", "def act() -> int:\n    return 2\n").act
    assert source_digest(one) == source_digest(same) != source_digest(other)


def test_function_without_a_file_has_a_digest() -> None:
    scope: dict[str, Any] = {"__name__": "nowhere"}
    exec(SOURCE, scope)
    assert source_digest(scope["act"]) == files_digest([scope["act"]])[:16]


def test_version_is_the_given_one_or_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_CODE_VERSION", " 2026-11 ")
    assert (current_version(), current_version("v7")) == ("2026-11", "v7")
    monkeypatch.setenv("PERDURE_CODE_VERSION", "")
    assert current_version().startswith("files-")


@pytest.mark.databases("sqlite", "postgres")
def test_registered_worker_announces_its_code_and_workspace(store: Store) -> None:
    runtime = Runtime(store)
    runtime.worker_about = {"queues": ["mail"], "code_version": "v1", "workspaces": ["shared"]}
    me = runtime.worker.id
    here = store.read_now(worker.find, me)
    assert here is not None
    assert (here.queues, here.code_version, here.workspaces) == (["mail"], "v1", ["shared"])
    assert here.machine == machine()
    assert "tool:perdure.approve" in here.code
    runtime.worker.close()
    assert store.read_now(worker.find, me) is None
