"""Every test can fail: it asserts something itself or through a function that it calls. Its waits have a limit."""

import ast
from functools import cache

from tests.tidy.source import files, parsed, relative, uses

Function = ast.FunctionDef | ast.AsyncFunctionDef
SURE = {"raises", "warns", "fail", "wait_for", "wait_until", "check_call", "run_state_machine_as_test"}
SURE |= {"to_be_visible", "to_contain_text", "to_have_count", "to_have_text"}  # of a page in a browser
SILENT = "_does_not_raise"  # the end of the name of a test that has nothing to assert


def functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


@cache
def called(function: Function) -> frozenset[str]:
    """The names of the functions and of the asserting methods that a function calls."""
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    methods = {one.attr for one in calls if isinstance(one, ast.Attribute)}
    return frozenset({one.id for one in calls if isinstance(one, ast.Name)} | methods & SURE)


@cache
def asserting() -> frozenset[str]:
    """The helper functions of the tests that assert something, themselves or through a call."""
    every = [one for path in files("tests") for one in functions(parsed(path)) if not one.name.startswith("test_")]
    found = SURE | {one.name for one in every if any(isinstance(node, ast.Assert) for node in ast.walk(one))}
    while more := {one.name for one in every if called(one) & found} - found:
        found |= more
    return frozenset(found)


def can_fail(test: Function) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(test)) or bool(called(test) & asserting())


def test_every_test_asserts_something_or_is_named_does_not_raise() -> None:
    found = [
        f"{relative(path)}: {one.name}"
        for path in files("tests")
        for one in functions(parsed(path))
        if one.name.startswith("test_") and not one.name.endswith(SILENT) and not can_fail(one)
    ]
    assert found == []


def test_test_without_an_assertion_is_found() -> None:
    (nothing, something) = functions(ast.parse("def test_nothing():\n  x = 1\ndef test_something():\n  assert 1"))
    assert not can_fail(nothing)
    assert can_fail(something)


def test_no_test_has_an_endless_busy_loop() -> None:
    """`while ...: pass` takes processor time from what it waits for, and may never end. Use `wait_until`."""
    loops = [
        (path, loop)
        for path in files("tests")
        for loop in ast.walk(parsed(path))
        if isinstance(loop, ast.While) and all(isinstance(line, ast.Pass) for line in loop.body)
    ]
    assert [f"{relative(path)}:{loop.lineno}" for path, loop in loops if not isinstance(loop.test, ast.Call)] == []


def test_only_listed_modules_fork() -> None:
    """A forked child that raises in a test becomes a second pytest, which keeps every pipe open and never ends."""
    in_children = {
        "tests/crash/support/opening_tasks.py",
        "tests/examples/kill_points.py",
        "tests/runtime/support/isolated_app.py",
    }
    about_forks = {"tests/runtime/test_runtime.py", "tests/store/test_fork.py"}  # with an alarm that ends the child
    forking = {relative(path) for path in files("tests") if uses(parsed(path), "os.fork")}
    assert forking == {"tests/forked.py"} | in_children | about_forks
