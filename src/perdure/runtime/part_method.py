"""A verb of the runtime as a method of one of its parts, offered under the same name.

Name, signature and docstring are those of the method, so that each verb is written once, where it is done. A
`PartMethod` holds no part and does nothing itself: the runtime that is asked decides what it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")


class PartMethod(Generic[P, R]):
    """Declares a verb. On the class it is the method of the part, on an object what the object binds it to."""

    def __init__(self, method: Callable[Concatenate[Any, P], R] | LateMethod) -> None:
        self._declared = method
        path = f"{method.part}.{method.name}" if isinstance(method, LateMethod) else method.__qualname__
        self.part, self.name = path.split(".")

    @overload
    def __get__(self, runtime: None, kind: type[Any]) -> Callable[Concatenate[Any, P], R]: ...
    @overload
    def __get__(self, runtime: Binder, kind: type[Any]) -> Callable[P, R]: ...
    def __get__(self, runtime: Binder | None, kind: type[Any]) -> Callable[..., R]:
        return self.method if runtime is None else runtime.bind(self)

    @property
    def method(self) -> Callable[..., R]:
        """The method of the part, not bound."""
        return self._declared.load() if isinstance(self._declared, LateMethod) else self._declared


class Binder(Protocol):
    """What has verbs, and knows who does them."""

    def bind(self, verb: PartMethod[..., Any]) -> Callable[..., Any]: ...


class LateMethod(NamedTuple):
    """A method of a class that is not imported yet."""

    part: str
    name: str
    load_part: Callable[[], Any]

    def load(self) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(self.load_part(), self.name)
        return found


class LatePart:
    """A class of a layer above: it is imported when one of its methods, or an object of it, is first needed."""

    def __init__(self, name: str, load: Callable[[], Any]) -> None:
        self._name = name
        self._load = load

    def __getattr__(self, method: str) -> LateMethod:
        return LateMethod(self._name, method, self._load)

    def __call__(self, *given: Any) -> Any:
        return self._load()(*given)


def verbs_of(kind: type[Any]) -> dict[str, PartMethod[..., Any]]:
    """The verbs that a class declares."""
    return {name: one for name, one in vars(kind).items() if isinstance(one, PartMethod)}
