"""Hostile rows: planted by raw SQL, they are refused or treated as data, and never executed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from perdure import PerdureError, Session, program
from perdure.errors import Conflict, IllegalMove
from tests.runtime.support.scripted_world import Outside, World
from tests.store.support.sessions import raw

pytestmark = pytest.mark.databases("sqlite", "postgres")


class Bomb:
    """Unpickling it leaves a trace."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def planted(path: Path) -> list[str]:
    """Texts that a careless reader would execute, resolve, or choke on."""
    return [
        pickle.dumps(Bomb(path), protocol=0).decode("latin-1").replace("'", "''"),
        f"cos\\nsystem\\n(S''touch {path}''\\ntR.",
        '{"py/object": "pathlib.Path", "args": ["x"]}',
        '"os.system"',
        '{"__class__": "os.system", "n": 1}',
        "9" * 400,
        "1e999",
        '"\\ud800"',
        '{"n": ' + "[" * 2000 + "]" * 2000 + "}",
        "[1, 2",
        "null",
        "[]",
        "",
    ]


async def waiting(world: World) -> None:
    act = Outside("lost").tool()

    @program
    async def work(s: Session, n: int) -> Any:
        await s.step("one", lambda: 1)
        return [await s.do(act, n=1), await s.ask("continue?")]

    await world.run(work.bind(n=1))


@pytest.mark.parametrize(
    "place", ["effect.position", "effect.intent", "effect.tool", "attempt.process", "session.arguments", "step.result",
              "wait.detail"],
)  # fmt: skip
async def test_a_hostile_row_is_refused_or_data(world: World, tmp_path: Path, place: str) -> None:
    await waiting(world)
    trace = tmp_path / "executed"
    errors: list[PerdureError] = []
    for text in planted(trace):
        table, column = place.split(".")
        await plant(world, table, column, text)
        for use in (world.again, world.rt.recovery_plan, world.rt.get, world.rt.state_at):
            try:
                await use("s")
            except PerdureError as error:
                errors.append(error)
    assert not trace.exists()
    assert all(error.hint and len(str(error)) < 1000 for error in errors)


async def plant(world: World, table: str, column: str, text: str) -> None:
    """Bypasses every check: a trigger in the way is dropped first, as anyone with access to the file could."""
    statement = f"update {table} set {column} = '{text}'"
    if world.rt.store.database.dialect == "postgres":
        raw(
            world.rt.store, "set session_replication_role = replica", statement, "set session_replication_role = origin"
        )
    else:
        for trigger in ("effect_keeps_its_intent", "step_is_recorded_once", "wait_is_resolved_once"):
            raw(world.rt.store, f"drop trigger if exists {trigger}")
        raw(world.rt.store, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "update effect set state = 'exploded'", "update effect set replay = 'whatever'",
        "update attempt set outcome = 'x'", "update effect set generation = -1", "update effect set verdict = 'maybe'",
        "update effect set number = 'not a number'", "update attempt set epoch = 'x'",
    ],
)  # fmt: skip
async def test_what_no_row_may_say_the_database_refuses(world: World, statement: str) -> None:
    await waiting(world)
    with pytest.raises((Conflict, IllegalMove, PerdureError)):
        raw(world.rt.store, statement)
