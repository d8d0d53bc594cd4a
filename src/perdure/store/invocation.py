"""The call that made a move or a read, so that a store in another process can make the same one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

if TYPE_CHECKING:
    from perdure.store.move import Move

P = ParamSpec("P")
T = TypeVar("T")


class Invocation(NamedTuple):
    """A factory of moves, or a query, with what it was called with."""

    factory: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def described(factory: Callable[P, Move[T]]) -> Callable[P, Move[T]]:
    """A factory of moves whose moves name the call that made them."""

    @wraps(factory)
    def make(*args: P.args, **kwargs: P.kwargs) -> Move[T]:
        return factory(*args, **kwargs).made_by(make, *args, **kwargs)

    return make
