"""What no code may reach: a second SQLite, anything that runs stored data, a clock or chance outside their modules."""

import ast

import pytest

from tests.tidy.source import files, parsed, place, uses

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
STOPWATCH = ("time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns")
CHANCE = ("random", "secrets", "uuid", "uuid_utils", "os.urandom", "os.getrandom")

# Which file or folder may, and why. An entry that is no longer needed fails the test too.
MAY_IMPORT_BY_NAME = {
    "src/perdure/__init__.py": "public names are loaded when first asked for",
    "src/perdure/cli/__init__.py": "a command of its own table is loaded when first asked for",
    "src/perdure/runtime/ledger/isolated_process.py": "the worker names the module of a loaded tool; rows never do",
    "src/perdure/testing/": "a sweep imports the code that it is told to kill; rows never name it",
    "src/perdure/cli/app.py": "a person names the module that defines programs and tools; rows never do",
}
MAY_READ_THE_TIME = {
    "src/perdure/clock.py": "it is the clock",
}
MAY_MEASURE = {
    "src/perdure/agent/commands/runner.py": "a command has a time limit, whether or not its worker still lives",
    "src/perdure/runtime/ledger/isolation.py": "a process is killed at its time limit, by real time",
    "src/perdure/store/writer/group_commit.py": "a group that took long takes in the renewals that came meanwhile",
    "src/perdure/store/databases/sqlite/engine.py": "a move has a time limit, which no test clock should stretch",
    "src/perdure/store/databases/postgres/connection.py": "a lost server is given time to come back",
    "src/perdure/store/databases/postgres/silence.py": "a server that says nothing is hung up on",
    "src/perdure/store/writer/lock.py": "the gate opens within a time limit, or says who keeps it shut",
    "src/perdure/testing/": "waits for real processes and sockets",
}
MAY_DRAW = {
    "src/perdure/ids.py": "it mints the ids",
    "src/perdure/testing/": "ports, passwords and names of servers that live for one test",
}


def offenders(names: tuple[str, ...], allowed: dict[str, str]) -> tuple[list[str], list[str]]:
    """Where the names are used without leave, and which leave nobody needs."""
    found = [(place(path), line) for path in files("src") for line in uses(parsed(path), *names)]
    without_leave = [f"{name}:{line}" for name, line in found if not name.startswith(tuple(allowed))]
    return without_leave, [entry for entry in allowed if not any(name.startswith(entry) for name, _ in found)]


def test_nobody_imports_the_standard_sqlite() -> None:
    """Two SQLite copies with one file open in one process lose its locks."""
    found = {place(path): uses(parsed(path), "sqlite3", "_sqlite3") for path in files(*EVERYWHERE)}
    assert [f"{name}:{line}" for name, lines in found.items() for line in lines] == []


def test_nothing_stored_is_ever_executed() -> None:
    assert offenders(EXECUTION, MAY_IMPORT_BY_NAME) == ([], [])


def test_only_the_clock_reads_the_time() -> None:
    assert offenders(WALL, MAY_READ_THE_TIME) == ([], [])


def test_only_listed_places_measure_durations() -> None:
    assert offenders(STOPWATCH, MAY_MEASURE) == ([], [])


def test_only_ids_draw_at_random() -> None:
    assert offenders(CHANCE, MAY_DRAW) == ([], [])


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import time as t\nt.time()", WALL),
        ("from time import time_ns\n", WALL),
        ("import datetime as dt\ndt.datetime.now(dt.UTC)", WALL),
        ("from datetime import datetime\ndatetime.now()", WALL),
        ("def f():\n    import random", CHANCE),
        ("from os import urandom", CHANCE),
        ("import importlib\nimportlib.import_module(name)", EXECUTION),
        ("result = eval(text)", EXECUTION),
        ("from pickle import loads", EXECUTION),
        ("import sqlite3.dbapi2", ("sqlite3",)),
    ],
)
def test_the_rule_sees_a_forbidden_name(code: str, names: tuple[str, ...]) -> None:
    assert uses(ast.parse(code), *names)


@pytest.mark.parametrize(
    "code", ["clock.time()", "import time\ntime.sleep(1)", "import re\nre.compile(x)", "model.eval()", "uuid = s.uid"]
)
def test_the_rule_leaves_other_names_alone(code: str) -> None:
    assert not uses(ast.parse(code), *WALL, *CHANCE, *EXECUTION)
