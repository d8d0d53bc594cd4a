"""The signature of a function: its parameters and its result, and how both are stored as JSON and read back.

Arguments are bound by name and validated before anything is planned. `step`, `do` and `child` return the decoded
record, as the annotated type, on the first run too: a program never gets a value that a later run would not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

import msgspec

from perdure.errors import ConfigError
from perdure.ids import canonical, digest
from perdure.runtime.definitions.stored_form import StoredForm
from perdure.runtime.definitions.stored_types import why_unstorable
from perdure.runtime.description import short_text, summary
from perdure.secrets.redaction import redact_json
from perdure.secrets.reference import Secret


class Signature:
    """One function's parameters and result."""

    def __init__(self, function: Callable[..., Any], *, given: Sequence[str] = (), nameless: bool = False) -> None:
        """`given` are the leading parameters that Perdure supplies; `nameless` ones are called through `by_name`."""
        self.name = getattr(function, "__name__", "function")
        self.is_async = inspect.iscoroutinefunction(function)
        try:
            signature = inspect.signature(function)
        except ValueError:
            raise ConfigError(
                f"{self.name} has no signature that can be read.", hint="Wrap it in a function."
            ) from None
        hints = _hints(function, given)
        parameters = [p for p in signature.parameters.values() if p.name not in given]
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ConfigError(f"{self.name} takes *{parameter.name}; a durable call names each argument.")
        self._nameless = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_ONLY)
        if self._nameless and not nameless:
            raise ConfigError(f"{self.name} takes {self._nameless[0]} only by position; a durable call names it.")
        self._signature = signature.replace(parameters=parameters)
        self._in_order = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
        self._all_in_order = len(self._in_order) == len(parameters)
        for parameter in parameters:
            self._check(f"the parameter {parameter.name}", hints.get(parameter.name, Any))
        fields = [_field(parameter, hints.get(parameter.name, Any)) for parameter in parameters]
        self._type = msgspec.defstruct(f"{self.name}_arguments", fields, forbid_unknown_fields=True, kw_only=True)
        self._arguments = StoredForm(self._type)
        returns = hints.get("return", Any)
        self.returns: Any = type(None) if returns is None else returns
        self._check("the result", self.returns)
        self._result = StoredForm(self.returns)

    def _check(self, what: str, type_: Any) -> None:
        if (why := why_unstorable(type_)) is not None:
            shown = getattr(type_, "__qualname__", None) or str(type_)
            raise ConfigError(
                f"{self.name}: {what} is declared as {shown}, which cannot be stored: {why}.",
                hint="Use JSON types, structs, dataclasses, pydantic models, enums, Path, datetime, Decimal or bytes.",
            )

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, as JSON; raises `ConfigError` if they do not fit."""
        if not kwargs and self._all_in_order and len(args) == len(self._in_order):  # five times faster than `bind`
            named = dict(zip(self._in_order, args, strict=True))
        else:
            named = self._bind(args, kwargs)
        try:
            plain: dict[str, Any] = self._arguments.plain(named)
            self._arguments.open(plain)
        except Exception as error:  # a value may run code of its own while it is written
            raise self._refused(named, error) from None
        return plain

    def _refused(self, named: Mapping[str, Any], error: Exception) -> ConfigError:
        """The error of an argument that cannot be stored, with the parameter's name."""
        which = ""
        for name, value in named.items():
            try:
                self._arguments.plain({name: value})
            except Exception as found:
                which, error = f"the parameter {name}: ", found
                break
        said = error.message if isinstance(error, ConfigError) else short_text(error, 2000)
        return ConfigError(f"{self.name}: {which}{said.rstrip('.')}.", hint="Give values of the declared types.")

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """What it takes, without what Perdure supplies."""
        return self._signature.parameters

    def by_name(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function as one that takes all arguments by name."""
        if not self._nameless:
            return function
        return lambda **named: function(*[named.pop(name) for name in self._nameless], **named)

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ConfigError(f"{self.name}: {error}.") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def unbind(self, arguments: Mapping[str, Any], secrets: list[Secret] | None = None) -> dict[str, Any]:
        """Recorded arguments as the annotated types. The secrets among them are added to `secrets`."""
        try:
            opened = self._arguments.open(dict(arguments), secrets)
        except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"{self.name} no longer takes the recorded arguments: {error}.") from None
        return {name: getattr(opened, name) for name in self._type.__struct_fields__}

    def unbind_for_act(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The same for an act that begins: its secrets are resolved. Raises `ConfigError` if one is missing here."""
        secrets: list[Secret] = []
        opened = self.unbind(arguments, secrets)
        for one in secrets:
            one.resolve()
        return opened

    def check_secrets(self, arguments: Mapping[str, Any]) -> None:
        """Raise `ConfigError` if a secret is missing in this process."""
        if self._arguments.has_secrets:
            self.unbind_for_act(arguments)

    def secrets_in(self, arguments: Mapping[str, Any]) -> list[Secret]:
        """The secrets among recorded arguments."""
        secrets: list[Secret] = []
        if self._arguments.has_secrets:
            self.unbind(arguments, secrets)
        return secrets

    def encode_result(self, value: Any) -> str:
        """A result as JSON text, if it would come back as the annotated type. Known secrets are replaced."""
        try:
            text = redact_json(self._result.text(value))
        except ConfigError:
            raise
        except Exception as error:  # a value may run code of its own while it is written
            raise ConfigError(f"{self.name}: the result cannot be stored as JSON: {summary(error)}.") from None
        self.decode_result(text)
        return text

    def decode_result(self, text: str) -> Any:
        """A recorded result as the annotated type."""
        try:
            return self._result.read(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ConfigError(f"{self.name} does not return what its annotation says: {error}.") from None

    def allows_none(self) -> bool:
        try:
            self._result.read("null")
        except msgspec.MsgspecError:
            return False
        return True

    def json_schema(self) -> dict[str, Any]:
        """Its parameters, as JSON Schema."""
        return self._arguments.schema()


def _field(parameter: inspect.Parameter, type_: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    """A parameter as a field; what is left out of a record has the default that the code has now."""
    default = parameter.default
    if default is parameter.empty:
        return (parameter.name, type_)
    plain = default is None or isinstance(default, str | int | float)
    given = {"default": default} if plain else {"default_factory": lambda: default}
    return (parameter.name, type_, msgspec.field(**given))


def argument_digest(arguments: Mapping[str, Any]) -> str:
    return digest(canonical(arguments))


def _hints(function: Callable[..., Any], given: Sequence[str]) -> dict[str, Any]:
    """The annotations, as types. What Perdure supplies may be known to the type checker only; the rest may not."""
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        pass
    hints: dict[str, Any] = {}
    whole = inspect.unwrap(function)
    for name, annotation in getattr(whole, "__annotations__", {}).items():
        one: Any = lambda: None  # noqa: E731 - something to carry one annotation
        one.__annotations__ = {name: annotation}
        try:
            hints |= get_type_hints(one, getattr(whole, "__globals__", {}), include_extras=True)
        except (NameError, TypeError, AttributeError) as error:
            if name not in given:
                label = getattr(function, "__name__", "function")
                raise ConfigError(
                    f"The annotation of {name} in {label} cannot be read: {error}.",
                    hint="Import the type where the function can see it when it runs.",
                ) from None
    return hints
