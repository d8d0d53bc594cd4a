"""What runs inside each process that is killed: the guard, shorter waits, and a person who looks at the outside.

The person counts. An effect in doubt happened if the outside holds more than the ledger knows to be there; that needs
no key and no marker, and is right as long as one effect at a time is in doubt.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from perdure.clock import SECOND
from perdure.domain.effect import Effect, EffectState, Replay
from perdure.domain.literals import VerdictWord
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ConfigError
from perdure.evaluation.own_tools.guard import Guard, refusal
from perdure.evaluation.own_tools.subject import example
from perdure.runtime.definitions.program import PROGRAMS, program
from perdure.runtime.definitions.tool import TOOLS, Tool
from perdure.runtime.runtime import Runtime
from perdure.runtime.session import Session
from perdure.testing.sink import SinkClient
from perdure.testing.sweep import trial
from perdure.testing.sweep.fork_process import find_task

SETTINGS = "PERDURE_EVALUATION_OF_TOOLS"
BEFORE = "before"  # the path at the sink under which a trial keeps what the user's probe showed at its beginning
INSIDE = (Replay.PURE, Replay.JOINT)  # they leave nothing outside


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What every process under test is told, in its environment."""

    allowed: list[str] = []
    packages: list[str] = []
    observe: str = ""
    inflight: float | None = 0.05

    def environment(self) -> dict[str, str]:
        return {SETTINGS: msgspec.json.encode(self).decode()}

    @classmethod
    def here(cls) -> ProcessSettings:
        return msgspec.json.decode(os.environ[SETTINGS], type=cls)


PATIENCE = 3  # questions about one effect, before the tool is said to fail always

_guard: Guard | None = None
_asked: dict[str, int] = {}  # questions in this process, by effect


@program
async def perdure_single_call(s: Session, tool: str, arguments: dict[str, Any]) -> None:
    """Call one tool, as a program of the user would."""
    called = TOOLS[tool]
    await s.do(called, **called.signature.unbind(arguments))


def rehearse() -> None:
    """Warm this process up, then guard it: the user's modules are imported after this."""
    global _guard
    trial.rehearse()
    _guard = Guard(ProcessSettings.here().allowed)
    _guard.install()


def prepare() -> None:
    """Begin a process of a trial: report kill points in the user's code, and shorten what it waits for."""
    given = ProcessSettings.here()
    assert _guard is not None
    _guard.packages = tuple(given.packages)
    for one in TOOLS.values():
        if given.inflight is not None:
            one.inflight = min(one.inflight, int(given.inflight * SECOND))
        _own(f"tool {one.name}" if one.undoes is None else f"undo of {one.undoes}", one.function)
        _own(f"probe of {one.name}", one.probe_function)
    for each in PROGRAMS.values():
        _own("plain code", each.function)


def _own(owner: str, function: Any) -> None:
    code = getattr(function, "__code__", None)
    if code is not None and _guard is not None and _guard.is_users(str(function.__module__)):
        _guard.owners[code] = owner


async def answer(runtime: Runtime, wait: Wait, sink: SinkClient) -> None:
    """Answer one wait as a careful and truthful person does. What was refused cannot be judged."""
    if _guard is not None and _guard.refused:
        raise refusal(_guard.refused[0])
    if wait.kind != WaitKind.DOUBT:
        await trial.answer(runtime, wait, sink)
        return
    effects = [one async for one in runtime.effects(session=wait.session_uid)]
    (doubted,) = [one for one in effects if one.id == wait.ref]
    tool = TOOLS[doubted.tool]
    await asyncio.sleep(tool.inflight / SECOND)
    _asked[doubted.id] = _asked.get(doubted.id, 0) + 1
    if _asked[doubted.id] > PATIENCE:
        attempts = (await runtime.effect(doubted.id)).attempts
        raise ConfigError(f"{doubted.tool} fails in every attempt: {attempts[-1].error}")
    known = sum(one.state == EffectState.ACKNOWLEDGED and _is_outside(one) for one in effects)
    there = await asyncio.to_thread(observed_here, sink)
    verdict: VerdictWord = "happened" if len(there) > known else "absent"
    await asyncio.to_thread(lambda: sink.note(verdict=verdict, effect=doubted.id))
    result = receipt(tool, there[-1]) if verdict == "happened" else None
    await runtime.settle(doubted.id, verdict, by="person", because="seen outside", result=result)


def _is_outside(effect: Effect) -> bool:
    return effect.tool in TOOLS and TOOLS[effect.tool].undoes is None and effect.replay not in INSIDE


def observed_here(sink: SinkClient) -> list[Any]:
    """What this trial has left outside so far: at the sink, or as the user's own probe shows it."""
    observe = ProcessSettings.here().observe
    if not observe:
        return [{"id": one["id"]} for one in sink.kept()]
    (before,) = sink.find(path=BEFORE)
    return new_items(before["body"], find_task(observe)())


def new_items(before: list[Any], now: list[Any]) -> list[Any]:
    """What is there now and was not there before; equal items are counted."""
    left = [msgspec.json.encode(one, order="sorted") for one in before]
    new = []
    for item in msgspec.to_builtins(now):
        text = msgspec.json.encode(item, order="sorted")
        if text in left:
            left.remove(text)
        else:
            new.append(item)
    return new


def observe_here(_: Any, environment: dict[str, str]) -> list[Any]:
    """What the user's probe shows now, as JSON; run in a process of its own."""
    os.environ.update(environment)
    shown = find_task(ProcessSettings.here().observe)()
    if not isinstance(shown, (list, tuple)):
        raise ConfigError("The function of --observe must return a list of what is outside.")
    found: list[Any] = msgspec.to_builtins(list(shown))
    return found


def receipt(tool: Tool[..., Any], item: Any) -> Any:
    """A result of the type that the tool returns."""
    schema = msgspec.json.schema(tool.signature.returns) if tool.signature.returns is not Any else {}
    for guess in (item, item.get("id") if isinstance(item, dict) else None, None, example(schema) if schema else None):
        try:
            tool.signature.decode_result(msgspec.json.encode(guess).decode())
        except ConfigError:
            continue
        return guess
    raise ConfigError(f"No result of {tool.name} is known.", hint="Return JSON types, or nothing.")
