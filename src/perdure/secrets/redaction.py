"""The secrets whose values this process knows, and their replacement in what comes from outside.

    known      values of references that were resolved, those that the operator names, and the keys of models
    replaced   before a result, an error or a text is recorded, so before any digest is made of it and before a program
               or a model sees it
    never      arguments, of which intents, digests and keys are made: a recovery would act with the marker

A value is found as it is, and as JSON, JSON in a string of JSON, a URL or base64 would write it. As long as no secret
is known, `KNOWN.pattern` is None, and that test is all that anything here costs.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from perdure.ids import decode, encode
from perdure.secrets.stream import RedactionStream

SHORTEST = 8  # characters of a value that can be told from other text
_PART = re.compile(r"[A-Za-z0-9+/=_.-]{32,}", re.MULTILINE)  # a line of a key in several lines
_lock = threading.Lock()


class KnownSecrets:
    """The known values of this process. They are never forgotten: what was printed may be read much later."""

    def __init__(self) -> None:
        self.pattern: re.Pattern[str] | None = None
        self.named: frozenset[str] = frozenset()  # the references that the operator named
        self.markers: dict[str, str] = {}  # of each form of each value

    def is_in(self, text: str) -> bool:
        """Whether a known value is in a text. Ten times faster than the pattern, which is for texts that have one."""
        return self.pattern is not None and any(one in text for one in self.markers)

    def replacement(self, found: re.Match[str]) -> str:
        return self.markers[found[0]]


KNOWN = KnownSecrets()


def marker(reference: str) -> str:
    """What stands in place of a value."""
    return f"[secret {reference}]"


def add(reference: str, value: str) -> None:
    """Replace this value from now on, if it is long enough to be told from other text."""
    if len(value) < SHORTEST or value in KNOWN.markers:
        return
    with _lock:
        found = dict.fromkeys(_forms(value), marker(reference)) | KNOWN.markers
        if KNOWN.pattern is None:
            _redact_log()
        KNOWN.markers = dict(sorted(found.items(), key=lambda one: -len(one[0])))
        KNOWN.pattern = re.compile("|".join(map(re.escape, KNOWN.markers)))


def redact(text: str) -> str:
    """The text with a marker in place of each known value."""
    if KNOWN.pattern is None or not KNOWN.is_in(text):
        return text
    return KNOWN.pattern.sub(KNOWN.replacement, text)


def redact_json(text: str) -> str:
    """JSON text with markers in its texts. A number that contains a value becomes a marker too."""
    if KNOWN.pattern is None or not (KNOWN.is_in(text) or "\\" in text):  # a value may be escaped more than once
        return text
    shown = redact_value(plain := decode(text))
    return text if shown == plain else encode(shown)


def redact_value(plain: Any) -> Any:
    """JSON values with markers in their texts."""
    if KNOWN.pattern is None or plain is None or isinstance(plain, bool):
        return plain
    if isinstance(plain, str):
        return redact(plain)
    if isinstance(plain, Mapping):
        return {redact(key): redact_value(one) for key, one in plain.items()}
    if isinstance(plain, list | tuple):
        return [redact_value(one) for one in plain]
    return redact(str(plain)) if KNOWN.pattern.search(str(plain)) else plain


def found_in(text: str) -> str | None:
    """The reference of a known secret whose value, or whose marker, is in a text."""
    if KNOWN.pattern is None:
        return None
    if (found := KNOWN.pattern.search(text)) is not None:
        return _reference(KNOWN.markers[found[0]])
    return next((_reference(one) for one in set(KNOWN.markers.values()) if one in text), None)


def stream() -> RedactionStream | None:
    """For what arrives in pieces; None if no secret is known."""
    return None if KNOWN.pattern is None else RedactionStream(byte_markers())


def byte_markers() -> dict[bytes, bytes]:
    """The markers, for output that is read as bytes."""
    return {value.encode(): shown.encode() for value, shown in KNOWN.markers.items()}


def _reference(shown: str) -> str:
    return shown.removeprefix("[secret ").removesuffix("]")


def _forms(value: str) -> list[str]:
    """A value as it may be written: as it is, in JSON, in a URL, in base64; and each line of a key in several lines.

    In JSON it is escaped once, or twice if that JSON is a string of JSON itself.
    """
    parts = _PART.findall(value) if "\n" in value else []
    once = _in_json(value)
    twice = [again for one in once for again in _in_json(one)]
    encoded = [quote(value, safe=""), b64encode(value.encode()).decode().rstrip("=")]
    return [value, *once, *twice, *encoded, *parts]


def _in_json(text: str) -> list[str]:
    return [json.dumps(text, ensure_ascii=escape)[1:-1] for escape in (False, True)]


def _redact_log() -> None:
    """Replace known values in messages of the loggers of Perdure, for every handler."""
    make = logging.getLogRecordFactory()

    def make_redacted(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        if record.name.partition(".")[0] == "perdure":
            _redact_record(record)
        return record

    logging.setLogRecordFactory(make_redacted)


def _redact_record(record: logging.LogRecord) -> None:
    if KNOWN.pattern is None:
        return
    if KNOWN.pattern.search(record.getMessage()):
        if isinstance(record.args, tuple):  # one by one: a handler may use them
            record.args = tuple(one if isinstance(one, int | float) else redact(str(one)) for one in record.args)
        if KNOWN.pattern.search(said := record.getMessage()):
            record.msg, record.args = redact(said), ()
    if record.exc_info:
        trace = logging.Formatter().formatException(record.exc_info)
        if KNOWN.pattern.search(trace):
            record.exc_text = redact(trace)
