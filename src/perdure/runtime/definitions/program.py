"""Programs: durable functions, registered by name. Rows name programs, never modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, ProgramUnknown
from perdure.ids import check_name
from perdure.runtime.definitions.prompt import File
from perdure.runtime.definitions.session_use import may_call
from perdure.runtime.definitions.signature import Signature
from perdure.runtime.definitions.tool import register
from perdure.runtime.deploy.code_fit import read_record
from perdure.runtime.ledger.ledger import Ledger
from perdure.runtime.run.records import Records, load
from perdure.runtime.run.run import Run
from perdure.store.move import StoreTransaction

if TYPE_CHECKING:
    from perdure.runtime.policy.objections import OwnPolicy
    from perdure.runtime.runtime import Runtime
    from perdure.runtime.session import Session

P = ParamSpec("P")
T = TypeVar("T")


class Bound(Generic[T]):
    """A program with its arguments: what a session is started with."""

    __module__ = "perdure"

    def __init__(self, program: Program[..., T], arguments: dict[str, Any], files: tuple[File, ...] = ()) -> None:
        self.program = program
        self.arguments = arguments
        self.files = files  # that the arguments name; they are stored when the session starts

    def __repr__(self) -> str:
        return f"{self.program.name}.bind({', '.join(f'{k}={v!r}' for k, v in self.arguments.items())})"


def check_bound(bound: object) -> None:
    if not isinstance(bound, Bound):
        name = getattr(bound, "name", None) or type(bound).__name__
        raise ConfigError(f"{name} was given without its arguments.", hint=f"Give {name}.bind(...).")


class OutputReader(Protocol):
    """Reads what the running commands of a session print."""

    def tail(self, effect_id: str, attempt: int, lines: int) -> list[str]:
        """The last lines that an attempt has printed."""


class Program(Generic[P, T]):
    """A durable function."""

    __module__ = "perdure"

    _INTERNAL = frozenset(
        {"function", "signature", "reads_messages", "may_receive", "read", "missing", "retry_lines", "open_model",
         "output_reader", "ledger", "main", "own_policy"}
    )  # fmt: skip
    reads_messages = False  # whether it is an agent, which reads every message before it ends

    def __init__(self, function: Callable[Concatenate[Session, P], Coroutine[Any, Any, T]], name: str) -> None:
        first = next(iter(inspect.signature(function).parameters), None)
        if first is None or not inspect.iscoroutinefunction(function):
            raise ConfigError(f"Program {name} must be an async function whose first parameter is the session.")
        self.function = function
        self.name = check_name("The program", name)
        self.signature = Signature(function, given=[first])

    @cached_property
    def may_receive(self) -> bool:
        """Whether it may call `s.receive`."""
        return may_call(self.function, "receive")

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[T]:
        """Fix the arguments; they are validated now."""
        return Bound(self, self.signature.bind(args, kwargs))

    @property
    def reader(self) -> Callable[[StoreTransaction, str], Records]:
        """The query for what a run must know of a session before it begins."""
        return load

    def prepare(self, records: Records) -> None:
        """Make this process ready for what is on record, before anything is recovered."""

    def missing(self, session: SessionRecord) -> str | None:  # noqa: ARG002 - an agent's tools are in its arguments
        """What else must be loaded before this session can run."""
        return None

    def own_policy(self, session: SessionRecord) -> OwnPolicy | None:  # noqa: ARG002 - for agents
        """The policy of an agent itself."""
        return None

    def retry_lines(self, error: Any) -> list[dict[str, Any]]:  # noqa: ARG002 - for agents
        """What is added to the transcript when a session that failed with this error is retried."""
        return []

    def open_model(self, name: str, arguments: dict[str, Any]) -> Any:  # noqa: ARG002 - for agents
        """The model of a name, for a session with these arguments; refused if it cannot be used here."""
        raise ConfigError(f"Program {self.name} has no model.", hint="Only an agent has one.")

    def output_reader(self, runtime: Runtime, uid: str) -> OutputReader | None:  # noqa: ARG002 - agents have one
        """What reads the output of the running commands of a session."""
        return None

    def ledger(self, run: Run) -> Ledger:
        """What performs the effects of a run, and recovers those that an earlier one left."""
        return Ledger(run)

    async def main(self, run: Run, ledger: Ledger) -> Any:
        """Run it from the top."""
        from perdure.runtime.session import run_program  # late: the session uses programs, as children

        given = run.session.restart_arguments if run.session.restart_number else run.session.arguments
        function: Callable[..., Coroutine[Any, Any, T]] = self.function
        arguments = read_record(run, lambda: self.signature.unbind(given))
        return await run_program(run, ledger, function, arguments)

    def __dir__(self) -> list[str]:
        """What users may use."""
        return sorted({*super().__dir__()} - self._INTERNAL)

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
