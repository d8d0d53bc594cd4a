"""Public names are complete, sorted and documented, and no module has a vague name."""

import pickle
import re

import perdure
from perdure import Intent, errors
from perdure.domain.record import Record
from perdure.runtime.part_method import verbs_of
from tests.tidy.source import ROOT, files, relative, text

VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "base", "misc"}


def test_no_module_has_a_vague_name() -> None:
    found = [relative(path) for path in files("src", "tests", "benchmarks", "examples", "tools")]
    assert [name for name in found if VAGUE & set(re.split(r"[/.]", name))] == []


def test_public_names_are_sorted() -> None:
    assert list(perdure.__all__) == sorted(set(perdure.__all__))


def test_public_names_exist() -> None:
    assert [name for name in perdure.__all__ if not hasattr(perdure, name)] == []
    assert set(perdure.__all__) <= set(dir(perdure))


def test_exported_classes_name_the_package_as_their_module() -> None:
    exported = [getattr(perdure, name) for name in perdure.__all__]
    classes = [one for one in exported if isinstance(one, type)]
    assert classes
    records = [one for one in classes if issubclass(one, Record | Intent)]  # msgspec reads their types in their module
    assert [one.__name__ for one in classes if one.__module__ != "perdure" and one not in records] == []
    assert all(pickle.loads(pickle.dumps(one)) is one for one in classes)


def test_star_import_leaves_the_builtin_open_alone() -> None:
    assert "open" not in perdure.__all__
    assert "open" in dir(perdure)
    assert perdure.open.__module__.startswith("perdure.")


async def test_completion_lists_what_users_may_call() -> None:
    async with perdure.open("memory:") as rt, perdure.Worker(rt) as worker:
        shown = {name for name in dir(rt) if not name.startswith("_")}
        assert shown == {*verbs_of(perdure.Runtime), "close", "by", "on_delta"}
        assert [name for name in dir(worker) if not name.startswith("_")] == [
            "drain", "failed", "given_back", "idle", "run", "running", "runtime",
        ]  # fmt: skip
    bound = perdure.Agent("completed", model="scripted:none.json", tools=[])
    for thing in (bound, perdure.program(completed_program), perdure.tool(completed_tool)):
        assert not {"signature", "ledger", "main", "rule", "source"} & set(dir(thing))


async def completed_program(s: perdure.Session) -> None: ...


def completed_tool() -> None: ...


def test_every_error_is_exported() -> None:
    assert [name for name, one in vars(errors).items() if _is_error(one) and name not in perdure.__all__] == []


def _is_error(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, BaseException)


def test_public_names_are_documented() -> None:
    """A name is documented where a page says `name` or perdure.name as code."""
    pages = "\n".join(text(page) for page in [ROOT / "README.md", *files("docs/reference", suffix=".md")])
    assert [name for name in perdure.__all__ if not re.search(rf"(`@?|\bperdure\.){re.escape(name)}\b", pages)] == []


def test_package_ships_its_types() -> None:
    assert (ROOT / "src/perdure/py.typed").exists()
