"""A test can fail: it asserts something itself, or calls something that does. Its waits have a bound."""

import ast
from functools import cache

from tests.tidy.source import files, parsed, place, uses

Function = ast.FunctionDef | ast.AsyncFunctionDef
SURE = {"raises", "warns", "fail", "wait_for", "wait_until", "check_call", "run_state_machine_as_test"}
SILENT = "_does_not_raise"  # a test of this name says that there is nothing more to assert


def functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


@cache
def called(function: Function) -> frozenset[str]:
    """The names of the functions that a function calls, and of those methods that are sure to raise."""
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    methods = {one.attr for one in calls if isinstance(one, ast.Attribute)}
    return frozenset({one.id for one in calls if isinstance(one, ast.Name)} | methods & SURE)


@cache
def asserting() -> frozenset[str]:
    """Functions of the tests that assert something, themselves or by what they call."""
    every = [one for path in files("tests") for one in functions(parsed(path)) if not one.name.startswith("test_")]
    found = SURE | {one.name for one in every if any(isinstance(node, ast.Assert) for node in ast.walk(one))}
    while more := {one.name for one in every if called(one) & found} - found:
        found |= more
    return frozenset(found)


def can_fail(test: Function) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(test)) or bool(called(test) & asserting())


def test_every_test_asserts_something_or_says_that_it_does_not() -> None:
    found = [
        f"{place(path)}: {one.name}"
        for path in files("tests")
        for one in functions(parsed(path))
        if one.name.startswith("test_") and not one.name.endswith(SILENT) and not can_fail(one)
    ]
    assert found == []


def test_a_test_without_an_assertion_is_found() -> None:
    (nothing, something) = functions(ast.parse("def test_nothing():\n  x = 1\ndef test_something():\n  assert 1"))
    assert not can_fail(nothing)
    assert can_fail(something)


def test_no_test_spins_without_a_bound() -> None:
    """`while ...: pass` uses a processor that what is waited for may need, and never ends: use `wait_until`."""
    loops = [
        (path, loop)
        for path in files("tests")
        for loop in ast.walk(parsed(path))
        if isinstance(loop, ast.While) and all(isinstance(line, ast.Pass) for line in loop.body)
    ]
    assert [f"{place(path)}:{loop.lineno}" for path, loop in loops if not isinstance(loop.test, ast.Call)] == []


def test_only_one_place_forks_the_process_of_the_tests() -> None:
    """A forked child that raises in a test becomes a second pytest, which holds every pipe and never ends."""
    in_children = {
        "tests/crash/support/opening_tasks.py",
        "tests/examples/everywhere.py",
        "tests/runtime/support/isolated_app.py",
    }
    about_forks = {"tests/runtime/test_runtime.py", "tests/store/test_fork.py"}  # with an alarm that ends the child
    forking = {place(path) for path in files("tests") if uses(parsed(path), "os.fork")}
    assert forking == {"tests/forked.py"} | in_children | about_forks
