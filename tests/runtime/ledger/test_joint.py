"""Joint tools: what they write commits with the record of the effect, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import perdure
from perdure import NotDone, Session, Transaction, program, tool
from perdure.errors import ConfigError, StoreFull, StoreUnavailable
from perdure.store.databases.sqlite import engine
from perdure.store.move import StoreTransaction
from tests.runtime.support.scripted_world import World
from tests.store.support.sessions import connection_of, plain, run_raw

KEEPS_TABLES = ("sqlite", "memory", "postgres")
COUNT_UP = (
    "with recursive n (i) as (select 1 union all select i + 1 from n where i < 1000000000) "
    "insert into joint_account select 'x' || i, 0 from n"
)
STATEMENTS = {  # each fails, and undoes the whole transaction
    "or rollback": "insert or rollback into joint_account values ('ada', 0)",
    "trigger": "insert into joint_account values ('trigger', 0)",
    "full": "insert into joint_account values (hex(zeroblob(100000)), 0)",
    "interrupt": COUNT_UP,
}


@pytest.fixture
def accounts(world: World) -> Iterator[World]:
    """Two accounts with 10 each, in a table of the user's own."""

    def ready(tx: StoreTransaction) -> None:
        run_raw(tx, "create table joint_account (name text primary key, cents bigint)")
        run_raw(tx, "insert into joint_account values ('ada', 10), ('grace', 10)")

    world.rt.store.write_now(plain(ready))
    yield world
    world.rt.store.write_now(plain(lambda tx: run_raw(tx, "drop table joint_account")))


async def balances(world: World) -> dict[str, int]:
    def query(tx: StoreTransaction) -> dict[str, int]:
        return dict(connection_of(tx).execute("select name, cents from joint_account").fetchall())

    return await world.rt.store.read(query)


@tool(replay="joint")
def transfer(tx: Transaction, between: str, catch: bool) -> str:
    """Move 5 from one account to the other; between the halves run a statement whose error may be caught."""
    tx.execute("update joint_account set cents = cents - 5 where name = 'ada'")
    caught = "nothing"
    try:
        tx.execute(between)
    except Exception as error:
        if not catch:
            raise
        caught = type(error).__name__
    try:
        tx.execute("update joint_account set cents = cents + 5 where name = 'grace'")
    except Exception as error:
        if not catch:
            raise
        caught += type(error).__name__
    return caught


@program
async def transfers(s: Session, between: str, catch: bool) -> str:
    try:
        return await s.do(transfer, between=between, catch=catch)
    except NotDone as error:
        return "failed: " + str(error.details["error"]["type"])


@pytest.mark.databases("sqlite", "memory")
@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_tool_that_catches_the_error_of_a_rollback_moves_nothing(
    accounts: World, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(tx: StoreTransaction) -> None:
        run_raw(
            tx,
            "create trigger no_way before insert on joint_account when new.name = 'trigger' "
            "begin select raise(rollback, 'no'); end",
        )

    accounts.rt.store.write_now(plain(prepare))
    bound = transfers.bind(between=STATEMENTS[statement], catch=True)
    if statement in ("or rollback", "trigger"):  # the statement's own fault: a proof that nothing happened
        view = await accounts.run(bound)
        assert (view.status, view.result) == ("done", "failed: Conflict")
        assert (await accounts.effect()).state == "failed"
    else:  # the database's fault: nothing is recorded of it
        if statement == "full":
            accounts.rt.store.write_now(plain(lambda tx: run_raw(tx, "pragma max_page_count = 1")))
        await accounts.rt.start(bound, id="s")
        if statement == "interrupt":
            monkeypatch.setattr(engine, "MOVE_LIMIT", 0.2)
        with pytest.raises(StoreFull if statement == "full" else StoreUnavailable):
            await accounts.rt.run("s")
        monkeypatch.undo()
        assert await accounts.effects() == []
    assert await balances(accounts) == {"ada": 10, "grace": 10}


@pytest.mark.databases(*KEEPS_TABLES)
async def test_a_joint_tool_may_catch_a_refused_statement(accounts: World) -> None:
    view = await accounts.run(transfers.bind(between="insert into joint_account values ('ada', 0)", catch=True))
    assert (view.status, view.result) == ("done", "Conflict")
    assert (await accounts.effect()).state == "acknowledged"
    assert await balances(accounts) == {"ada": 5, "grace": 15}


@pytest.mark.databases(*KEEPS_TABLES)
async def test_a_joint_tool_that_does_not_catch_an_error_moves_nothing(accounts: World) -> None:
    view = await accounts.run(transfers.bind(between="insert into joint_account values ('ada', 0)", catch=False))
    assert (view.status, view.result) == ("done", "failed: Conflict")
    assert await balances(accounts) == {"ada": 10, "grace": 10}


CONTROL = (
    *("commit", "ROLLBACK", "end", "abort", "begin", "start transaction", "savepoint x", "release x", "vacuum"),
    *("prepare transaction 'x'", "attach 'x' as y", "detach y", "pragma synchronous = 0", "set role x", "reset all"),
    *(
        "discard all",
        "/* x */ commit",
        "-- it's\ncommit -- it's",
        "/* ' */ commit /* ' */",
        "/* /* */ select */ commit",
    ),
    *("select 1; commit", "select 1 -- it's\n; commit -- it's", "select ';'';'; commit", "select $$'$$; commit; --'"),
    *("select E'\\''; commit; --'", "", ";commit"),
)


def runs_anything(sql: str, _: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [(sql,)]


@pytest.mark.parametrize("sql", CONTROL)
def test_a_joint_tool_cannot_control_the_transaction(sql: str) -> None:
    with pytest.raises(ConfigError):
        Transaction(runs_anything).execute(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select ';' -- no; end",
        "(select 1)",
        "update x set y = 'commit; it''s' ;",
        'select "a;b" from x',
        "select $a$;$a$",
    ],
)
def test_a_joint_tool_may_write_such_words_in_texts_and_comments(sql: str) -> None:
    assert Transaction(runs_anything).execute(sql) == [(sql,)]


@pytest.mark.databases("memory")
async def test_a_transaction_cannot_be_used_after_its_tool_returned(accounts: World) -> None:
    kept: list[Transaction] = []

    @tool(replay="joint")
    def keeps(tx: Transaction) -> None:
        kept.append(tx)

    @program
    async def late(s: Session) -> None:
        await s.do(keeps)
        kept[0].execute("update joint_account set cents = 0")

    view = await accounts.run(late.bind())
    assert (view.status, view.error["type"]) == ("failed", "ConfigError")
    assert await balances(accounts) == {"ada": 10, "grace": 10}


@pytest.mark.databases("files")
async def test_a_joint_tool_is_refused_on_text_files_before_anything_is_written(world: World) -> None:
    view = await world.run(transfers.bind(between="select 1", catch=True))
    assert (view.status, view.error["type"]) == ("failed", "ConfigError")
    assert "cannot keep the tables of a tool" in view.error["message"]
    assert await world.effects() == []
    world.crash()
    assert (await world.rt.get("s")).status == "failed"


@tool(replay="joint")
def review_question(tx: Transaction) -> str:
    ((said,),) = tx.execute("select 'why?' || cast(? as text)", ("!",))
    return str(said)


@program
async def review_asker(s: Session) -> str:
    return await s.do(review_question)


@pytest.mark.databases("postgres")
async def test_a_question_mark_in_a_sql_literal_is_not_a_parameter(target: str) -> None:
    async with perdure.open(target) as rt:
        await rt.start(review_asker.bind(), id="s")
        view = await rt.run("s")
        assert (view.result, view.error) == ("why?!", None)
