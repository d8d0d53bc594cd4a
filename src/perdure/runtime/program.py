"""Programs: durable functions, registered by name. Rows name programs, never modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from perdure.errors import ConfigError, ProgramUnknown
from perdure.ids import check_name
from perdure.runtime.shape import Shape
from perdure.runtime.tool import register

if TYPE_CHECKING:
    from perdure.runtime.session import Session

P = ParamSpec("P")
T = TypeVar("T")


class Bound(Generic[T]):
    """A program with its arguments: what a session is started with."""

    def __init__(self, program: Program[..., T], arguments: dict[str, Any]) -> None:
        self.program = program
        self.arguments = arguments

    def __repr__(self) -> str:
        return f"{self.program.name}.bind({', '.join(f'{k}={v!r}' for k, v in self.arguments.items())})"


class Program(Generic[P, T]):
    """A durable function."""

    def __init__(self, function: Callable[Concatenate[Session, P], Coroutine[Any, Any, T]], name: str) -> None:
        first = next(iter(inspect.signature(function).parameters), None)
        if first is None or not inspect.iscoroutinefunction(function):
            raise ConfigError(f"Program {name} must be an async function whose first parameter is the session.")
        self.function = function
        self.name = check_name("The program", name)
        self.shape = Shape(function, given=[first])

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[T]:
        """Fix the arguments; they are validated now."""
        return Bound(self, self.shape.bind(args, kwargs))

    def __repr__(self) -> str:
        return f"Program({self.name})"


PROGRAMS: dict[str, Program[..., Any]] = {}


def program(function: Callable[Concatenate[Session, P], Coroutine[Any, Any, T]]) -> Program[P, T]:
    """Declare a durable program."""
    made = Program(function, function.__name__)
    register(PROGRAMS, made.name, made, function)
    return made


def get_program(name: str) -> Program[..., Any]:
    if name not in PROGRAMS:
        raise ProgramUnknown(f"No program named {name} is loaded here.")
    return PROGRAMS[name]
