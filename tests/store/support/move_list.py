"""Every move that the store's modules define, found by inspection, so that none is missing."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import perdure.store
from perdure.domain.lease import Holder
from perdure.store.move import HolderMove, Move, OutsiderMove
from perdure.store.moves import checkpoint, effect, event, lease, step
from perdure.store.moves.effect_input import Dispatch, NewEffect
from perdure.store.moves.step import NewStep

# Holder moves that are written out as functions, because they are hot or leave no event.
WRITTEN_OUT: dict[str, Callable[[Holder], Move[Any]]] = {
    "checkpoint.put": lambda holder: checkpoint.put(holder, number=1, codec="c", fingerprint="f", body="b"),
    "event.append": lambda holder: event.append(holder, "note"),
    "lease.renew": lambda holder: lease.renew(holder, 1),
    "step.record": lambda holder: step.record(
        holder, NewStep(restart_number=0, scope="", name="n", argument_digest="d", occurrence=0, result="1")
    ),
}

# Holder moves that read their arguments before they write as a hot move, and are then refused by the guard.
HOT: dict[str, Callable[[Holder], Move[Any]]] = {
    "effect.plan_and_dispatch": lambda holder: effect.plan_and_dispatch(
        holder,
        NewEffect(
            id="e-1", position='["x"]', generation=0, tool="t", replay="escalate", targets='["branch:main"]',
            intent="{}", intent_digest="0" * 64, idempotency_key="1" * 64,
        ),
        Dispatch(worker="w", process="{}"),
    ),
}  # fmt: skip


def modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(perdure.store.__path__, "perdure.store.")
    return [importlib.import_module(module.name) for module in found if not module.ispkg]


def defined() -> Iterator[tuple[str, Any]]:
    for module in modules():
        for name, value in vars(module).items():
            if not name.startswith("_"):
                yield f"{module.__name__.rsplit('.', 1)[-1]}.{name}", value


def holder_moves() -> dict[str, Callable[[Holder], Move[Any]]]:
    """Every holder move, with meaningless arguments: a refused move never uses them."""
    found = {name: _nonsense(value) for name, value in defined() if isinstance(value, HolderMove)}
    return found | WRITTEN_OUT | HOT


def outsider_moves() -> dict[str, Callable[[str, str], Move[Any]]]:
    return {name: _nonsense(value) for name, value in defined() if isinstance(value, OutsiderMove)}


def written_out() -> set[str]:
    """Functions that take a holder and make a move."""
    return {
        name
        for name, value in defined()
        if inspect.isfunction(value)
        and value.__annotations__.get("holder") == "Holder"
        and str(value.__annotations__.get("return", "")).startswith("Move[")
    }


def plain_moves() -> dict[str, Callable[..., Move[Any]]]:
    return {
        name: value for name, value in defined() if getattr(value, "__qualname__", "") == "plain_move.<locals>.make"
    }


def _nonsense(move: Any) -> Callable[..., Move[Any]]:
    required = [
        parameter
        for parameter in list(inspect.signature(move.on).parameters.values())[1:]
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    positional = [None for parameter in required if parameter.kind is not parameter.KEYWORD_ONLY]
    keywords = {parameter.name: None for parameter in required if parameter.kind is parameter.KEYWORD_ONLY}
    return lambda *who: move(*who, *positional, **keywords)
