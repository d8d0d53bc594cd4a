"""Whatever a user's function raises, the record is written: no exception can be too strange to be described."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure import Call, ConfigError, Outcome, Session, StepFailed, ToolError, program, tool
from perdure.errors import PerdureError
from perdure.ids import decode
from perdure.runtime.definitions.tool import Tool
from perdure.runtime.description import describe, program_error
from perdure.runtime.function_call import Completion
from perdure.runtime.ledger.execution import outcome
from tests.runtime.support.scripted_world import World

MEMORY = pytest.mark.databases("memory")


class CodeIsAMethod(Exception):
    def code(self) -> int:  # as in gRPC
        return 14


class CodeRaises(Exception):
    @property
    def code(self) -> str:
        raise SystemExit(3)


class CodeIsAnObject(Exception):
    code = object()


class StrRaises(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class StrIsNoText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307


class LyingText(str):
    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __getitem__(self, key: Any) -> str:
        raise RuntimeError("no text")

    def replace(self, *_: Any) -> str:
        raise RuntimeError("no copy")


class StrLies(Exception):
    def __str__(self) -> str:
        return LyingText("text")


class ClassRaises(Exception):
    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class ClassLies(Exception):
    @property
    def __class__(self) -> Any:
        return asyncio.CancelledError

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class EverythingRaises(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class Named(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class TypeWithoutName(Exception, metaclass=Named): ...


class Base(BaseException): ...


HOSTILE: list[Callable[[], BaseException]] = [
    CodeIsAMethod, CodeRaises, CodeIsAnObject, StrRaises, StrIsNoText, StrLies, ClassRaises, ClassLies,
    EverythingRaises, TypeWithoutName, Base, GeneratorExit, StopIteration, StopAsyncIteration, RecursionError,
    MemoryError, lambda: SystemExit(object()), lambda: ValueError("half \ud800 a character, and \0"),
    lambda: ValueError("x" * 10_000_000), lambda: ExceptionGroup("several", [StrRaises(), CodeIsAMethod()]),
    lambda: BaseExceptionGroup("several", [Base(), KeyError("x")]),
]  # fmt: skip
STRANGE = pytest.mark.parametrize("made", HOSTILE, ids=lambda made: getattr(made, "__qualname__", "lambda"))


@STRANGE
def test_any_exception_has_a_bounded_description(made: Callable[[], BaseException]) -> None:
    for text in (describe(made()), describe(KeyboardInterrupt()), describe(asyncio.CancelledError())):
        assert len(text) < 10_000
        assert set(decode(text)) == {"type", "code", "message"}
    assert program_error(made(), test_any_exception_has_a_bounded_description)["type"]


def raiser(made: Callable[[], BaseException], is_async: bool) -> Callable[..., Any]:
    def plain(call: Call, n: int) -> int:
        raise made()

    async def asynchronous(call: Call, n: int) -> int:
        raise made()

    return asynchronous if is_async else plain


@MEMORY
@STRANGE
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_tool_that_raises_it_has_an_unknown_outcome(
    world: World, made: Callable[[], BaseException], is_async: bool
) -> None:
    act = tool(name="act")(raiser(made, is_async))

    @program
    async def acts(s: Session) -> str:
        try:
            return str(await s.do(act, n=1))
        except Exception:  # a program must not be told anything while the outcome is unknown
            return "told"

    view = await world.run(acts.bind())
    assert [one.kind for one in view.waits] == ["doubt"]
    effect = await world.effect()
    (attempt,) = await world.attempts(effect)
    assert (effect.state, attempt.outcome) == ("dispatched", "unknown")
    assert attempt.ended_at is not None


@pytest.mark.databases("sqlite", "postgres")
async def test_an_error_with_odd_characters_is_recorded_on_every_database(world: World) -> None:
    """One session meets them all, so that each database stores every text."""
    acts = [tool(name=f"act{index}", replay="pure", retry=1)(raiser(made, False)) for index, made in enumerate(HOSTILE)]

    @program
    async def meets(s: Session) -> int:
        for act in acts:
            with pytest.raises(ToolError):
                await s.do(act, n=1)
        return len(acts)

    assert (await world.run(meets.bind())).result == len(HOSTILE)
    world.verify()


@MEMORY
@STRANGE
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_step_that_raises_it_has_failed(
    world: World, made: Callable[[], BaseException], is_async: bool
) -> None:
    function = raiser(made, is_async)

    async def computes() -> int:
        return int(await function(None, 1))

    def plainly() -> int:
        return int(function(None, 1))

    @program
    async def steps(s: Session) -> str:
        try:
            return str(await s.step("one", computes if is_async else plainly))
        except StepFailed:
            return "told"

    assert (await world.run(steps.bind())).result == "told"


@MEMORY
@STRANGE
async def test_a_program_that_ends_with_it_is_failed(world: World, made: Callable[[], BaseException]) -> None:
    @program
    async def ends(s: Session) -> int:
        await s.step("one", lambda: 1)
        raise made()

    view = await world.run(ends.bind())
    assert view.status == "failed"
    assert made is StopIteration or "test_hostile_exceptions.py" in view.error["where"]
    with pytest.raises(PerdureError):
        world.rt.result_of(view)


@MEMORY
@STRANGE
async def test_a_probe_that_raises_it_has_no_answer(world: World, made: Callable[[], BaseException]) -> None:
    @tool(replay="probe")
    def act(n: int) -> int:
        raise OSError("the line was cut")

    @act.probe
    def _(n: int) -> Outcome:
        raise made()

    @program
    async def acts(s: Session) -> int:
        return await s.do(act, n=1)

    assert [one.kind for one in (await world.run(acts.bind())).waits] == ["doubt"]
    assert "The probe failed" in str((await world.effect()).doubt)


@MEMORY
@STRANGE
async def test_an_undo_that_raises_it_puts_the_effect_in_doubt(world: World, made: Callable[[], BaseException]) -> None:
    @tool(replay="compensate", inflight=0, retry=1)
    def act(n: int) -> int:
        raise OSError("the line was cut")

    @act.undo
    def _(result: int | None, n: int) -> None:
        raise made()

    @program
    async def acts(s: Session) -> int:
        return await s.do(act, n=1)

    view = await world.run(acts.bind())
    assert [(one.kind, one.ref == (await world.effects())[0].id) for one in view.waits] == [("doubt", True)]


@MEMORY
@STRANGE
async def test_a_policy_that_raises_it_allows_nothing(world: World, made: Callable[[], BaseException]) -> None:
    ran: list[int] = []

    @tool
    def act(n: int) -> int:
        ran.append(n)
        return n

    @program
    async def acts(s: Session) -> int:
        return await s.do(act, n=1)

    def policy(intent: Any) -> str:
        raise made()

    world.policy = policy
    world.rt.close()
    world.rt = world.open()
    view = await world.run(acts.bind())
    assert (view.status, view.error["type"], ran) == ("failed", ConfigError.__name__, [])


class Hooked(type):
    def __subclasscheck__(cls, other: type) -> bool:
        raise RuntimeError("ask another policy")


class Declared(Exception, metaclass=Hooked): ...


def test_a_declared_error_that_cannot_be_compared_proves_nothing() -> None:
    def act() -> None: ...

    declared: Tool[Any, Any] = tool(name="declares", safe_errors=(Declared,))(act)
    assert outcome(declared, Completion(error=KeyError("x"))).outcome == "unknown"
