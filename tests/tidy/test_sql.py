"""SQL is in `.sql` files, one per noun, and each query has a name and a purpose."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.tidy.source import files, literals, parsed, relative, text

HOMES = ("src/perdure/store/sql/", "src/perdure/store/migrations/")
DATABASES = "src/perdure/store/databases/"
JOURNAL = (
    "src/perdure/store/databases/files/journal.py"  # replays rows of any table, so it builds its SQL from table names
)
JOINT = (
    "src/perdure/evaluation/crash/perdure_worker.py",  # a program under test with a joint effect has a table of its own
    "src/perdure/evaluation/crash/system.py",  # counts the rows of that table from outside
)
RAW = "src/perdure/store/databases/sqlite/raw_rows.py"  # reads any row as bytes, so it builds its SQL from column names

# Queries for one database only. Each needs its own tests, so this list is exact.
OVERRIDES = (
    "claim.use_indexes@postgres",
    "doctor.absent_standbys@postgres",
    "doctor.archive@postgres",
    "doctor.clients@postgres",
    "doctor.commit@postgres",
    "doctor.damage@sqlite",
    "doctor.durability@sqlite",
    "doctor.login@postgres",
    "doctor.powerful_clients@postgres",
    "doctor.relations@postgres",
    "doctor.role_members@postgres",
    "doctor.role_rights@postgres",
    "doctor.server@postgres",
    "doctor.standbys@postgres",
    "effect.dispatch_held@postgres",
    "effect.settle_held@postgres",
    "event.append_held@postgres",
    "meta.check_schema@postgres",
    "meta.durability@postgres",
    "meta.exclude_migrations@postgres",
    "meta.exists@postgres",
    "meta.lock_migrations@postgres",
    "meta.no_limits@postgres",
    "meta.notify@postgres",
    "meta.notify_many@postgres",
    "meta.same_server@postgres",
    "meta.server_time@postgres",
    "meta.session_user@postgres",
    "meta.started@postgres",
    "meta.unlock_migrations@postgres",
    "policy.exclude_dispatches@postgres",
    "policy.limit_wait@postgres",
    "restore.timeline@postgres",
    "search.find@postgres",
    "search.find_in_session@postgres",
    "search.insert_words@postgres",
    "search.rewrite@postgres",
    "step.record_held@postgres",
)

QUERY = re.compile(
    r"\b(select\b.+\bfrom|insert\s+into|update\s+\S+\s+set|delete\s+from"
    r"|(create|alter|drop)\s+(temp\w*\s+|unique\s+|virtual\s+)?(table|index|trigger|view))\b",
    re.IGNORECASE | re.DOTALL,
)
CONTROL = re.compile(
    r"\s*(pragma\s+\w|begin\s+(immediate|deferred|exclusive|transaction|isolation)|savepoint\s+\S+\s*$"
    r"|rollback\s+to\b|release\s+savepoint\b|prepare\s+transaction\b)",
    re.IGNORECASE,
)
CONTROL_WORD = re.compile(r"\s*(begin|commit|end|rollback|release|savepoint|abort)\b", re.IGNORECASE)
NAME = re.compile(r"-- name: (?P<name>(?P<noun>[a-z_]+)\.[a-z_]+)(@(?P<dialect>postgres|sqlite))?$")


def queries_in(tree: ast.AST) -> list[int]:
    return [line for string, line in literals(tree) if QUERY.search(string)]


def transaction_control_in(tree: ast.AST) -> list[int]:
    executed = [
        (node.args[0].value, node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.startswith("execute")
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ]
    used = {line for string, line in literals(tree) if CONTROL.match(string)}
    return sorted(used | {line for string, line in executed if CONTROL_WORD.match(str(string))})


class Query(NamedTuple):
    name: str
    noun: str
    dialect: str | None
    purpose: str
    body: str
    where: str


def queries() -> Iterator[Query]:
    for path in files("src/perdure/store/sql", suffix=".sql"):
        lines = text(path).splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("-- name:")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            where = f"{relative(path)}:{start + 1}"
            named = NAME.match(lines[start])
            assert named, f"{where}: a query is named `-- name: noun.verb` or `-- name: noun.verb@postgres`"
            purpose, body = "".join(lines[start + 1 : start + 2]), "\n".join(lines[start + 2 : end]).strip()
            yield Query(named["name"], named["noun"], named["dialect"], purpose, body, where)


def test_sql_is_only_in_sql_files() -> None:
    code = [path for path in files("src") if not relative(path).startswith((*HOMES, *JOINT, JOURNAL, RAW))]
    assert [f"{relative(path)}:{line}" for path in code for line in queries_in(parsed(path))] == []
    assert [relative(path) for path in files("src", suffix=".sql") if not relative(path).startswith(HOMES)] == []


def test_only_the_databases_begin_and_end_transactions() -> None:
    code = [path for path in files("src") if not relative(path).startswith((DATABASES, *HOMES))]
    assert [f"{relative(path)}:{line}" for path in code for line in transaction_control_in(parsed(path))] == []


def test_every_query_has_a_purpose_and_a_text() -> None:
    assert [query.where for query in queries() if not re.match(r"-- \S", query.purpose) or not query.body] == []


def test_query_names_are_unique_and_in_the_file_of_their_noun() -> None:
    names = [(query.name, query.dialect) for query in queries()]
    assert [name for name in set(names) if names.count(name) > 1] == []
    assert [query.where for query in queries() if f"/{query.noun}.sql:" not in query.where] == []


def test_every_query_is_used() -> None:
    used = {string for path in files("src") for string, _ in literals(parsed(path))}
    assert [query.where for query in queries() if query.name not in used] == []


def test_overrides_for_one_database_are_listed() -> None:
    assert tuple(sorted(f"{query.name}@{query.dialect}" for query in queries() if query.dialect)) == OVERRIDES


def test_shared_queries_avoid_dialect_differences() -> None:
    """`like` treats case differently, and a database clock is not the store's clock."""
    trap = re.compile(r"\b(i?like|now\s*\(|current_timestamp|strftime|datetime\s*\()", re.IGNORECASE)
    shared = [query for query in queries() if query.dialect is None]
    assert [query.where for query in shared if trap.search(re.sub(r"--.*", "", query.body))] == []


@pytest.mark.parametrize(
    "code",
    [
        'x = "SELECT uid FROM session"',
        'x = f"select {columns} from {table}"',
        'x = "insert " "into event values (?)"',
        'run("update session set status = ?")',
        'run("""\n  delete\n  from lease""")',
        'run("create unique index i on t (a)")',
    ],
)
def test_query_in_code_is_found(code: str) -> None:
    assert queries_in(ast.parse(code)) == [1]


@pytest.mark.parametrize("code", ['"""Select a row from the table."""', 'x = "choose one from the list"'])
def test_prose_is_not_treated_as_sql(code: str) -> None:
    assert queries_in(ast.parse(code)) == []


@pytest.mark.parametrize(
    "code", ['tx.execute("COMMIT")', 'tx.execute("begin")', 'x = "PRAGMA synchronous=FULL"', 'x = f"savepoint {name}"']
)
def test_transaction_control_is_found(code: str) -> None:
    assert transaction_control_in(ast.parse(code)) == [1]


def test_words_are_not_treated_as_transaction_control() -> None:
    assert transaction_control_in(ast.parse('lease.release("commit"); x = "begin"')) == []
