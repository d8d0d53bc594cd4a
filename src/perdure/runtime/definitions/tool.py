"""Tools: how a program acts on the outside world, and whether an act may be repeated.

A tool declares its replay rule. Nothing is guessed: without a declaration the rule is `escalate`, and a person is asked
whenever the outcome is unknown.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

import msgspec

from perdure.clock import SECOND
from perdure.domain.effect import EffectReach, Replay, Rule
from perdure.domain.literals import ReachWord, ReplayRule
from perdure.errors import ConfigError, NotDone
from perdure.ids import check_name
from perdure.runtime.definitions.context_parameter import ContextParameter
from perdure.runtime.definitions.decorator_arguments import Declaration
from perdure.runtime.definitions.signature import Signature
from perdure.runtime.description import short_text
from perdure.store.move import Log

Q = ParamSpec("Q")
X = TypeVar("X", covariant=True)  # noqa: PLC0105 - a short name, as in the contract
F = TypeVar("F", bound=Callable[..., Any])

REFERENCE_LIMIT = 2000
PROGRESS_LIMIT = 500
WHY_LIMIT = 4000


class Isolation(StrEnum):
    """Where a tool's function runs, if not in a thread or the event loop of its worker."""

    PROCESS = "process"


class Gate(msgspec.Struct, frozen=True):
    """Ask people before the effect is dispatched.

    The requesters are those who decided what the session does, and its owner; a session without an owner asks in its
    own name. `roles` and `people` name the principals who may decide; without them every owner and approver may. The
    owner of the session may decide if the requester may, unless `owner_may_decide` says otherwise. After
    `escalate_after`, the roles and people of `escalate_to` are asked too. With `reason="required"`, each vote needs a
    reason.
    """

    __module__ = "perdure"

    name: str
    quorum: int = 1
    expires: str | float | None = "24h"
    requester_may_decide: bool = False
    reason: Literal["optional", "required"] = "optional"
    roles: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    owner_may_decide: bool | None = None
    escalate_after: str | float | None = None
    escalate_to: tuple[str, ...] = ()


class Call:
    """What a tool may know about its attempt. `key` is the same for every attempt of one effect.

    `undoes` is for an undo: the key that was given to what it takes back.
    """

    __module__ = "perdure"

    __slots__ = (
        "_heartbeat", "_on_stop", "attempt", "effect_id", "given_reference", "key", "session_id", "stopped_by",
        "undoes",
    )  # fmt: skip

    def __init__(
        self, key: str, attempt: int, session_id: str, effect_id: str, beat: Callable[[str | None], None] | None = None
    ) -> None:
        self.key = key
        self.attempt = attempt
        self.session_id = session_id
        self.effect_id = effect_id
        self.undoes: str | None = None
        self.given_reference: str | None = None
        self._heartbeat = beat
        self.stopped_by: str | None = None
        self._on_stop: Callable[[str], None] | None = None

    def on_stop(self, stop: Callable[[str], None]) -> None:
        """Give a function that ends the act early. It is called with the name of the person who interrupts the session.

        It is called in another thread, perhaps more than once, and must return soon. The act then returns or raises as
        it always does, which decides what is recorded.
        """
        self._on_stop = stop
        if self.stopped_by is not None:
            stop(self.stopped_by)

    def stop(self, by: str) -> None:
        """Stop the act, if it can be stopped: an asynchronous function is cancelled, a process is killed."""
        self.stopped_by = by
        if self._on_stop is not None:
            self._on_stop(by)

    def heartbeat(self, progress: str | None = None) -> None:
        """Report that a long act is still running, with a short text for people. Raises `LeaseLost` when it must stop.

        The text and the time are recorded at most every ten seconds, and shown while the act runs.
        """
        if self._heartbeat is not None:
            self._heartbeat(None if progress is None else short_text(progress, PROGRESS_LIMIT))

    def reference(self, reference: str | None) -> None:
        """Give the name of what was done in the outside system: an address, a number, a path. The last one counts.

        It is recorded with the outcome of this attempt, also when that outcome is unknown, and it never raises: by
        then the act may have happened.
        """
        self.given_reference = None if reference is None else short_text(reference, REFERENCE_LIMIT) or None


class Outcome:
    """A probe's answer: it happened, it is absent, or the probe cannot tell."""

    __module__ = "perdure"

    __slots__ = ("reference", "result", "said", "why")

    def __init__(self, said: str, result: Any = None, reference: str | None = None, why: str | None = None) -> None:
        self.said = said
        self.result = result
        self.reference = reference
        self.why = why

    def storable(self) -> Outcome:
        """The same answer as text that every database can store."""
        reference = None if self.reference is None else short_text(self.reference, REFERENCE_LIMIT)
        why = None if self.why is None else short_text(self.why, WHY_LIMIT)
        return Outcome(self.said, self.result, reference, why)

    @classmethod
    def happened(cls, result: Any = None, *, reference: str | None = None) -> Outcome:
        return cls("happened", result, reference)

    @classmethod
    def absent(cls) -> Outcome:
        return cls("absent")

    @classmethod
    def unknown(cls, why: str = "The probe cannot tell.") -> Outcome:
        return cls("unknown", why=why)

    def __repr__(self) -> str:
        return f"Outcome.{self.said}"


class Tool(Generic[Q, X]):
    """A tool: a function and its rule. Calling it directly just calls the function."""

    __module__ = "perdure"
    _INTERNAL = frozenset({"rule", "targets_of", "leases_of"})

    def __init__(self, function: Callable[Q, X], name: str, **declared: Any) -> None:
        self.function = function
        self.name = check_name("The tool", name)
        self.key: str | None = None
        given = Declaration(name, declared)
        self.replay = given.choice("replay", Replay)
        self.reach = given.choice("reach", EffectReach)
        self.inflight = given.duration("inflight") or 0
        self.timeout = given.duration("timeout")
        self.retry = given.count("retry")
        self.key_ttl = given.duration("key_ttl")
        self.safe_errors: tuple[type[BaseException], ...] = (NotDone, *given.errors("safe_errors"))
        self.targets = given.texts("targets")
        self.leases = given.texts("leases")
        self.gate: Gate | None = given.gate("gate", Gate)
        self.isolate = None if declared["isolate"] is None else given.choice("isolate", Isolation)
        first = next(iter(inspect.signature(function).parameters.values()), None)
        self.context = ContextParameter(function, Call)
        self.wants_transaction = self.replay is Replay.JOINT
        makes_moves = ContextParameter(function, Log, name=None).name is not None
        self.wants_log = self.wants_transaction and makes_moves
        given_name = first.name if first and self.wants_transaction else self.context.name
        self.signature = Signature(function, given=[given_name] if given_name else [])
        self.probe_function: Callable[..., Any] | None = None
        self.probe_context = self.context
        self.undo_tool: Tool[..., Any] | None = None
        self.outlives_worker = False  # its command may outlive the worker, and can be found again
        self.undoes: str | None = None  # for an undo: the name of the tool that it takes back
        self._check(first)

    def _check(self, first: inspect.Parameter | None) -> None:
        if self.wants_transaction and (first is None or self.signature.is_async):
            raise ConfigError(f"Tool {self.name}: a joint tool is a plain function whose first parameter is `tx`.")
        if self.isolate is not None:
            if self.wants_transaction:
                raise ConfigError(f"Tool {self.name}: a joint tool runs inside our transaction and cannot be isolated.")
            importable(self.function)
        if self.leases and self.replay in (Replay.PURE, Replay.JOINT):
            raise ConfigError(f"Tool {self.name}: a {self.replay} effect needs no lease; it changes nothing outside.")

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> X:
        return self.function(*args, **kwargs)

    def probe(self, function: F) -> F:
        """Declare how to find out whether it happened: the tool's parameters, an `Outcome` back."""
        self.probe_function = function
        self.probe_context = ContextParameter(function, Call)
        if self.context.name is not None:
            self.probe_context.choose_first_unless(self.signature.parameters)
        return function

    def undo(self, function: F) -> F:
        """Declare its undo: `(call, result, ...)`, idempotent, and without an error if there is nothing to undo."""
        self.undo_tool = Tool(
            function, f"{self.name}.undo",
            replay=Replay.IDEMPOTENT, inflight=self.inflight / SECOND, timeout=None, retry=self.retry, key_ttl=None,
            safe_errors=(), targets=self.targets, leases=self.leases, gate=None, isolate=None,
            reach=self.reach,
        )  # fmt: skip
        self.undo_tool.undoes = self.name
        TOOLS[self.undo_tool.name] = self.undo_tool
        return function

    def keyed(self, key: str) -> Tool[Q, X]:
        """The same tool for one of several equal parallel calls, distinguished by `key`."""
        return self._with(key=check_name("The key", key))

    def _with(self, **changed: Any) -> Tool[Q, X]:
        twin = cast("Tool[Q, X]", object.__new__(Tool))
        twin.__dict__ = self.__dict__ | changed
        return twin

    @property
    def rule(self) -> Rule:
        if self.replay is Replay.PROBE and self.probe_function is None:
            raise ConfigError(
                f"Tool {self.name} is declared `probe` and has no probe.", hint=f"Add @{self.name}.probe."
            )
        if self.replay is Replay.COMPENSATE and self.undo_tool is None:
            raise ConfigError(
                f"Tool {self.name} is declared `compensate` and has no undo.", hint=f"Add @{self.name}.undo."
            )
        return Rule(
            self.replay,
            self.inflight,
            self.retry,
            self.key_ttl,
            self.probe_function is not None,
            self.undo_tool is not None,
        )

    def targets_of(self, arguments: dict[str, Any]) -> list[str]:
        """The targets of an intent, by the tool's templates."""
        return self._filled("target", self.targets, arguments)

    def leases_of(self, arguments: dict[str, Any]) -> list[str]:
        """The resources that it needs exclusively, by the tool's templates."""
        return [check_name("The resource", name) for name in self._filled("lease", self.leases, arguments)]

    def _filled(self, what: str, templates: tuple[str, ...], arguments: dict[str, Any]) -> list[str]:
        try:
            return [template.format(**arguments) for template in templates]
        except (KeyError, IndexError, AttributeError) as error:
            raise ConfigError(f"Tool {self.name}: a {what} names an unknown parameter: {error}.") from None

    def __dir__(self) -> list[str]:
        """What users may use."""
        return sorted({*super().__dir__()} - {*vars(self), *self._INTERNAL} | {"name", "replay", "gate"})

    def __repr__(self) -> str:
        return f"Tool({self.name}, {self.replay})"


def importable(function: Callable[..., Any]) -> str:
    """The module that another process imports to find a function."""
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", "<unknown>")
    if module == "__main__":
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        module = None if spec is None else spec.name
    if module is None or "<" in qualname:
        raise ConfigError(
            f"{qualname} cannot be isolated: another process could not import it.",
            hint="Define it at the top of a module that can be imported, not in a script, a notebook or a function.",
        )
    return str(module)


TOOLS: dict[str, Tool[..., Any]] = {}


@overload
def tool(function: Callable[Q, X], /) -> Tool[Q, X]: ...


@overload
def tool(
    *,
    name: str | None = ...,
    replay: ReplayRule = ...,
    inflight: str | float = ...,
    timeout: str | float | None = ...,
    retry: int = ...,
    key_ttl: str | float | None = ...,
    safe_errors: tuple[type[BaseException], ...] = ...,
    targets: Sequence[str] = ...,
    leases: Sequence[str] = ...,
    gate: Gate | None = ...,
    isolate: Literal["process"] | None = ...,
    reach: ReachWord = ...,
) -> Callable[[Callable[Q, X]], Tool[Q, X]]: ...


def tool(
    function: Callable[Q, X] | None = None,
    /,
    *,
    name: str | None = None,
    replay: ReplayRule = "escalate",
    inflight: str | float = "30s",
    timeout: str | float | None = None,
    retry: int = 3,
    key_ttl: str | float | None = None,
    safe_errors: tuple[type[BaseException], ...] = (),
    targets: Sequence[str] = (),
    leases: Sequence[str] = (),
    gate: Gate | None = None,
    isolate: Literal["process"] | None = None,
    reach: ReachWord = "outside",
) -> Any:
    """Declare a tool. See `docs/how-to/choose-a-replay-rule.md` for which rule it deserves.

    `isolate="process"` runs it in a process of its own, which `timeout` really stops. `reach` states how far its effect
    reaches: "none" (the record only), "model", "workspace" (the session's folder), "machine" or "outside".
    """

    def declare(function: Callable[Q, X]) -> Tool[Q, X]:
        if not callable(function):
            raise ConfigError(f"{function!r} is no function.", hint='Give a name as `@tool(name="...")`.')
        made: Tool[Q, X] = Tool(
            function, name or function.__name__,
            replay=replay, inflight=inflight, timeout=timeout, retry=retry, key_ttl=key_ttl, safe_errors=safe_errors,
            targets=targets, leases=leases, gate=gate, isolate=isolate,
            reach=reach,
        )  # fmt: skip
        register(TOOLS, made.name, made, made.function)
        return made

    return declare if function is None else declare(function)


def register(registry: dict[str, Any], name: str, thing: Any, function: Callable[..., Any]) -> None:
    """Register by name. The same source again replaces it (notebooks, `__main__`); another one is refused."""
    there = registry.get(name)
    if there is not None and _source(there.function) != _source(function):
        raise ConfigError(f"Two definitions are named {name}.", hint="Rename one; rows refer to names.")
    registry[name] = thing


def _source(function: Callable[..., Any]) -> tuple[str, str]:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (code.co_filename if code else "", getattr(function, "__qualname__", ""))
