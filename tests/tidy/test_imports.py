"""Modules that code may not use: a second SQLite, execution of stored data, clocks and randomness elsewhere."""

import ast

import pytest

from tests.tidy.source import files, parsed, relative, uses

EVERYWHERE = ("src", "tests", "benchmarks", "examples", "tools")

EXECUTION = (
    *("pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "runpy"),
    *("importlib.import_module", "importlib.__import__", "pydoc.locate", "pkgutil.resolve_name"),
    *("builtins.eval", "builtins.exec", "builtins.__import__"),
)
WALL = (
    *("time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.ctime"),
    *("time.clock_gettime", "time.clock_gettime_ns"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"),
)
DURATIONS = ("time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns")
RANDOMNESS = ("random", "secrets", "uuid", "uuid_utils", "os.urandom", "os.getrandom")

# The files and folders that may use a name, and why. An entry that is no longer needed fails the test too.
MAY_IMPORT_BY_NAME = {
    "src/perdure/__init__.py": "public names are loaded on first use",
    "src/perdure/cli/__init__.py": "a command is loaded on first use, from a fixed table",
    "src/perdure/runtime/ledger/isolated_process.py": "the worker names the module of a loaded tool; rows never do",
    "src/perdure/testing/": "a sweep imports the code to kill, named by the caller; rows never name modules",
    "src/perdure/evaluation/catalogue.py": "a workload is loaded on first use, from a fixed table",
    "src/perdure/cli/app.py": "a user names the module with programs and tools; rows never name modules",
}
MAY_READ_THE_TIME = {
    "src/perdure/clock.py": "it is the clock",
}
MAY_MEASURE = {
    "src/perdure/cli/input/line_editor.py": "Enter right after an answer of one key is ignored",
    "src/perdure/cli/prompts/approval_prompt.py": "a key counts after a moment without typing",
    "src/perdure/agent/commands/runner.py": "a command has a time limit, even if its worker is dead",
    "src/perdure/runtime/ledger/isolation.py": "a process is killed at its time limit in real time",
    "src/perdure/store/writer/group_commit.py": "a group that took long includes later lease renewals",
    "src/perdure/store/databases/sqlite/engine.py": "a move has a time limit in real time",
    "src/perdure/store/databases/postgres/connection.py": "a lost server has time to come back",
    "src/perdure/store/databases/postgres/stall.py": "the connection to a silent server is closed",
    "src/perdure/store/writer/lock.py": "waiting for the write lock has a time limit",
    "src/perdure/testing/": "waits for real processes and sockets",
    "src/perdure/evaluation/": "it measures",
}
MAY_USE_RANDOMNESS = {
    "src/perdure/ids.py": "it creates the ids",
    "src/perdure/runtime/session.py": "it names the type of s.uuid()",
    "src/perdure/runtime/calls/recorded_values.py": "it names the type of s.uuid()",
    "src/perdure/evaluation/": "trials draw from their seed",
    "src/perdure/testing/": "ports, passwords and names of test servers",
}


def offenders(names: tuple[str, ...], allowed: dict[str, str]) -> tuple[list[str], list[str]]:
    """Uses of the names outside the allowed files, and allowed files that do not use them."""
    found = [(relative(path), line) for path in files("src") for line in uses(parsed(path), *names)]
    forbidden = [f"{name}:{line}" for name, line in found if not name.startswith(tuple(allowed))]
    return forbidden, [entry for entry in allowed if not any(name.startswith(entry) for name, _ in found)]


def test_standard_sqlite_module_is_not_imported() -> None:
    """Two copies of SQLite in one process that open one file lose its locks."""
    found = {relative(path): uses(parsed(path), "sqlite3", "_sqlite3") for path in files(*EVERYWHERE)}
    assert [f"{name}:{line}" for name, lines in found.items() for line in lines] == []


def test_nothing_stored_is_ever_executed() -> None:
    assert offenders(EXECUTION, MAY_IMPORT_BY_NAME) == ([], [])


def test_only_the_clock_reads_the_time() -> None:
    assert offenders(WALL, MAY_READ_THE_TIME) == ([], [])


def test_only_listed_modules_measure_durations() -> None:
    assert offenders(DURATIONS, MAY_MEASURE) == ([], [])


def test_only_ids_use_randomness() -> None:
    assert offenders(RANDOMNESS, MAY_USE_RANDOMNESS) == ([], [])


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import time as t\nt.time()", WALL),
        ("from time import time_ns\n", WALL),
        ("import datetime as dt\ndt.datetime.now(dt.UTC)", WALL),
        ("from datetime import datetime\ndatetime.now()", WALL),
        ("def f():\n    import random", RANDOMNESS),
        ("from os import urandom", RANDOMNESS),
        ("import importlib\nimportlib.import_module(name)", EXECUTION),
        ("result = eval(text)", EXECUTION),
        ("from pickle import loads", EXECUTION),
        ("import sqlite3.dbapi2", ("sqlite3",)),
    ],
)
def test_forbidden_name_is_found(code: str, names: tuple[str, ...]) -> None:
    assert uses(ast.parse(code), *names)


@pytest.mark.parametrize(
    "code", ["clock.time()", "import time\ntime.sleep(1)", "import re\nre.compile(x)", "model.eval()", "uuid = s.uid"]
)
def test_other_names_are_allowed(code: str) -> None:
    assert not uses(ast.parse(code), *WALL, *RANDOMNESS, *EXECUTION)
