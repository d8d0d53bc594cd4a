"""Answers to the questions of an audit, one page at a time, from the place where the page before ended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from perdure.clock import format_time
from perdure.errors import ConfigError
from perdure.ids import check_text, decode
from perdure.store.audit import questions
from perdure.store.audit.question import AuditColumn, AuditPlan, AuditQuestion, AuditRow, ColumnKind
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect, effect_target, session

PAGE = 500
FOREVER = 2**62
DAY = 86_400 * 1_000_000
BEYOND_HASH = "g"  # after every digit of a hash, in every order of texts
ONLY = "\x01"  # with it, the range of one target ends: no text sorts between the two
FIRST: dict[str, Any] = {"key_a": "", "key_b": "", "key_c": "", "number": 0, "count": FOREVER}


class AuditRange(msgspec.Struct, frozen=True):
    """From `since`, and before `until`."""

    since: int = 0
    until: int = FOREVER


def page(
    tx: StoreTransaction,
    name: str,
    parameters: Mapping[str, str | None],
    span: AuditRange,
    *,
    after: tuple[Any, ...] | None = None,
    limit: int = PAGE,
) -> list[AuditRow]:
    """One page of an answer; `after` is the key of the last row before it, or else a ValueError."""
    question = questions.find(name)
    given = {key: value for key, value in parameters.items() if value is not None}
    _check(question, given)
    values = _values(tx, question, given, span)
    plan = _plan(question, {*given, *(["prefix"] if values.get("prefix") else ()), *(["since"] if span.since else ())})
    if after is not None:
        values |= _place(plan, after)
    width, names = len(question.columns), tuple(column.name for column in question.columns)
    return [
        AuditRow(names, tuple(map(_read, question.columns, row[:width])), tuple(row[width:]))
        for row in tx.all(plan.statement, **values, limit=limit)
    ]


def answer(
    tx: StoreTransaction, name: str, parameters: Mapping[str, str | None], span: AuditRange, *, limit: int = FOREVER
) -> Iterator[AuditRow]:
    """All rows of an answer, up to a limit."""
    after: tuple[Any, ...] | None = None
    while limit > 0 and (rows := page(tx, name, parameters, span, after=after, limit=min(limit, PAGE))):
        yield from rows
        after, limit = rows[-1].key, limit - len(rows)


def _check(question: AuditQuestion, given: Mapping[str, str]) -> None:
    known = [one.name for one in question.parameters]
    for name, value in given.items():
        if name not in known:
            listed = f"It has {', '.join(known)}." if known else "It has none but the range and the limit."
            raise ConfigError(f"The question {question.name} has no parameter {name!r}.", hint=listed)
        check_text(f"The parameter {name}", value)
    about = given.keys() & set(question.needed)
    if len(about) > 1:
        raise ConfigError(f"The question {question.name} is about one of {', '.join(sorted(about))}.")
    if (needed := question.needed) and not about:
        options = [f"--{name}" for name in known if name in needed]
        *first, last = options
        listed = f"{', '.join(first)} or {last}" if first else last
        raise ConfigError(
            f"The question {question.name} is asked about something.", hint=f"Say what it is about: {listed}."
        )


def _values(
    tx: StoreTransaction, question: AuditQuestion, given: Mapping[str, str], span: AuditRange
) -> dict[str, Any]:
    """The values of a statement: the range, the first place, and the parameters as they are stored."""
    values: dict[str, Any] = FIRST | {"since": span.since, "until": span.until, "day": span.since - span.since % DAY}
    for parameter in question.parameters:
        name, value = parameter.name, given.get(parameter.name)
        if value is None:
            values[name] = None
        elif parameter.find == "session":
            values[name] = session.find(tx, value).uid
        elif parameter.find == "effect":
            values[name] = effect.find(tx, value).id
        elif parameter.find == "commit":
            values |= {"commit": check_commit(value), "after_commit": f"{value}{BEYOND_HASH}"}
        elif parameter.find == "target":
            found = effect_target.bounds(value)
            values |= found | {"prefix": found["beyond"] is not None}
            values["beyond"] = found["beyond"] or found["target"] + ONLY
        else:
            values[name] = value
    return values


def check_commit(name: str) -> str:
    """A hash of a commit, or enough of its beginning."""
    if re.fullmatch(r"[0-9a-f]{7,64}", name) is None:
        raise ConfigError(f"{name!r:.80} is not a commit.", hint="Give at least 7 digits of its hash.")
    return name


def _plan(question: AuditQuestion, given: set[str]) -> AuditPlan:
    return next(plan for plan in question.plans if given.issuperset(plan.needs))


def _place(plan: AuditPlan, after: tuple[Any, ...]) -> dict[str, Any]:
    """The values of a statement that begins after a key; databases compare no text with a number."""
    found = dict(zip(plan.key, after, strict=True))
    if any(type(value) is not type(FIRST.get(name, 0)) for name, value in found.items()):
        raise ValueError("the parts of the key have other types")
    return found


def _read(column: AuditColumn, value: Any) -> Any:
    """A value as the answer has it. What is not the JSON that it should be is shown as it is."""
    if column.kind is ColumnKind.DAY:
        return format_time(value)[:10]
    if value is None or column.kind not in (ColumnKind.LIST, ColumnKind.ERROR, ColumnKind.BODY, ColumnKind.JSON):
        return value
    try:
        found = decode(value)
    except (msgspec.DecodeError, TypeError, UnicodeError, RecursionError):
        return value
    if column.kind is not ColumnKind.BODY:
        return found
    said = found if isinstance(found, dict) else {}
    first = next((said[key] for key in column.keys if said.get(key) is not None), None)
    return first if first is None or isinstance(first, str) else str(first)
