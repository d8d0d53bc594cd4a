"""Names say what a thing is, and the public ones are complete, sorted and documented."""

import re

import perdure
from tests.tidy.source import ROOT, files, place, text

VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "base", "misc"}


def test_no_module_has_a_name_that_says_nothing() -> None:
    found = [place(path) for path in files("src", "tests", "benchmarks", "examples", "tools")]
    assert [name for name in found if VAGUE & set(re.split(r"[/.]", name))] == []


def test_public_names_are_sorted() -> None:
    assert list(perdure.__all__) == sorted(set(perdure.__all__))


def test_public_names_exist() -> None:
    assert [name for name in perdure.__all__ if not hasattr(perdure, name)] == []
    assert set(perdure.__all__) <= set(dir(perdure))


def test_public_names_are_documented() -> None:
    """A name is documented where a page says `name` or perdure.name as code."""
    pages = "\n".join(text(page) for page in [ROOT / "README.md", *files("docs/reference", suffix=".md")])
    assert [name for name in perdure.__all__ if not re.search(rf"(`@?|\bperdure\.){re.escape(name)}\b", pages)] == []


def test_the_package_ships_its_types() -> None:
    assert (ROOT / "src/perdure/py.typed").exists()
