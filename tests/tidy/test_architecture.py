"""The map of the code is true: every file, folder and test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.source import ROOT, parsed, text

PAGES = ("ARCHITECTURE.md", "docs/internals.md")
SOURCE = ROOT / "src" / "perdure"
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|\w+\.py)(?:::(\w+))?`")


def named(page: str) -> list[tuple[str, str]]:
    """The paths and tests in the code spans of a page."""
    return PATH.findall(page)


def tree(page: str) -> list[str]:
    """The folders and modules in the tree at the beginning of the page, as paths from `src/perdure`."""
    (drawn,) = re.findall(r"```text\nsrc/perdure/\n(.*?)^tests/", page, re.MULTILINE | re.DOTALL)
    parent, found = "", []
    for line in drawn.splitlines():
        name = line.split()[0]
        if line.startswith("    "):
            found.append(f"{parent}{name}")
        elif name.endswith("/"):
            parent = name
            found.append(name)
        else:
            found += [f"{word}.py" for word in line.split("  ")[1].split()]
    return found


def find(path: str) -> Path | None:
    return next((root / path for root in (SOURCE, ROOT) if (root / path).exists()), None)


def has_test(path: Path, name: str) -> bool:
    nodes = ast.walk(parsed(path))
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name for node in nodes)


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_test_on_the_page_exists(page: str) -> None:
    wrong = []
    for name, test in named(text(page)):
        path = find(name)
        if path is None or (test and not has_test(path, test)):
            wrong.append(f"{name}::{test}" if test else name)
    assert wrong == []


def test_every_folder_of_the_source_is_in_the_tree() -> None:
    drawn = tree(text("ARCHITECTURE.md"))
    assert [name for name in drawn if not (SOURCE / name).exists()] == []
    folders = [path.parent.relative_to(SOURCE) for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE]
    shown = {name.rstrip("/") for name in drawn}
    deep = [f.as_posix() for f in folders if len(f.parts) <= 2 and f.parts[0] not in {"testing", "control"}]
    assert sorted(set(deep) - shown) == []


def test_every_invariant_names_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", text("ARCHITECTURE.md"), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 15))
    assert [number for number, held_by in rows if "tests/" not in held_by] == []


def test_missing_file_or_test_is_found() -> None:
    assert named("see `store/moves/lease.py` and `tests/a/test_b.py::test_c`, not `pure`") == [
        ("store/moves/lease.py", ""),
        ("tests/a/test_b.py", "test_c"),
    ]
    assert find("store/moves/nothing.py") is None
    assert not has_test(Path(__file__), "test_of_another_name")
