"""Modules are named by nouns, class names are unique, and a folder has about a dozen modules at most."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable

import pytest

from tests.tidy.source import files, parsed, relative

FOLDERS = ("src", "tests", "benchmarks", "examples", "tools")
STAGE = {
    *("shepherd", "keeper", "pen", "homecoming", "hands", "heart", "desk", "crew", "ear", "den", "seat", "crowd"),
    *("payer", "labourer", "traveller", "forger", "judge", "teller"),
}
PARTICIPLES = {"told", "came", "kept", "heard", "held", "found", "asked", "known", "spared", "begun", "undone", "swept"}

# Modules and folders whose name ends in -ing, and why.
ING = {
    "src/perdure/testing/": "`perdure.testing` is a public name",
    "tests/testing/": "it mirrors `perdure.testing`",
    "src/perdure/runtime/services/housekeeping": "the usual word for it",
    "tests/runtime/services/test_housekeeping": "it mirrors `housekeeping`",
    "tests/packaging/": "packaging is the usual word for wheels",
}

WORDS = 12  # in the name of a test
LIMIT = 13  # modules in a folder of `src`
LARGE = {
    "src/perdure/cli/commands": "one module per command",
    "src/perdure/cli/text": "one module per kind of record that is printed",
    "src/perdure/server/operations": "one module per noun of the service",
    "src/perdure/store/moves": "one module per noun of the store",
    "src/perdure/domain": "one module per noun",
    "src/perdure/runtime": "the parts of the public interface, one module each",
}


def badly_named(modules: Iterable[str]) -> list[str]:
    """Modules named by an activity, a participle or a stage name."""
    found = []
    for module in modules:
        words = [part.removeprefix("test_") for part in module.removesuffix(".py").split("/")]
        parts = [word.split("_") for word in words]
        activity = any(word.endswith("ing") for word in words)
        if (activity and not module.startswith(tuple(ING))) or any(
            STAGE & set(part) or part[-1] in PARTICIPLES for part in parts
        ):
            found.append(module)
    return found


def badly_named_classes(tree: ast.AST) -> list[str]:
    """Classes named by a participle or a stage name, such as `Told` or `Keeper`."""
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return [name for name in classes if re.findall("[A-Z]?[a-z0-9]+|[A-Z]", name)[-1].lower() in STAGE | PARTICIPLES]


def large_folders(modules: Iterable[str]) -> dict[str, int]:
    counts = Counter(name.rpartition("/")[0] for name in modules if not name.endswith("/__init__.py"))
    return {folder: number for folder, number in counts.items() if number > LIMIT}


def test_modules_are_named_by_nouns() -> None:
    found = badly_named(relative(path) for path in files(*FOLDERS))
    assert found == []


@pytest.mark.parametrize("name", ["src/perdure/cli/hearing.py", "tests/cli/desk.py", "tests/cli/test_told.py"])
def test_activity_or_stage_name_is_found(name: str) -> None:
    assert badly_named([name, "src/perdure/clock.py", "src/perdure/testing/sink.py"]) == [name]


def test_classes_are_named_by_nouns() -> None:
    paths = [path for path in files(*FOLDERS) if path.name != "errors.py"]  # an error is named for what happened
    found = [f"{relative(path)}: {name}" for path in paths for name in badly_named_classes(parsed(path))]
    assert found == []


def test_participle_or_stage_class_is_found() -> None:
    tree = ast.parse("class Told: ...\nclass GitKeeper: ...\nclass ToolResult: ...")
    assert badly_named_classes(tree) == ["Told", "GitKeeper"]


def test_test_names_have_at_most_a_dozen_words() -> None:
    found = [
        f"{relative(path)}: {node.name}"
        for path in files("tests")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and node.name.count("_") > WORDS
    ]
    assert found == []


def test_no_two_public_classes_have_the_same_name() -> None:
    where = [
        (node.name, relative(path))
        for path in files("src")
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    counts = Counter(name for name, _ in where)
    twice = sorted(name for name, number in counts.items() if number > 1)
    assert [f"{name}: {path}" for name, path in where if name in twice] == []


def test_folders_are_small_or_listed() -> None:
    found = large_folders(relative(path) for path in files("src"))
    assert {folder: number for folder, number in found.items() if folder not in LARGE} == {}
    assert [folder for folder in LARGE if folder not in found] == []


def test_large_folder_is_found() -> None:
    assert large_folders(f"a/m{n}.py" for n in range(LIMIT)) == {}
    assert large_folders(f"a/m{n}.py" for n in range(LIMIT + 1)) == {"a": LIMIT + 1}
