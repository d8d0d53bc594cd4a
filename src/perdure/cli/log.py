"""Log messages on the command line: from which level on they are shown, and how.

The library only logs, with the standard `logging` under the logger `perdure`. A command writes what is logged to
standard error, from `warning` on unless `--verbose` or PERDURE_LOG says otherwise. An application (`--app`) that
configures the root logger takes the messages over. Telemetry is switched on here too.
"""

from __future__ import annotations

import json as json_
import logging
import os
import re
import sys
from typing import TextIO

from perdure.config import LOG, TELEMETRY
from perdure.errors import ConfigError
from perdure.runtime.telemetry import hook
from perdure.secrets.mask import mask

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
AS_JSON = "json"
IDS = ("session", "effect", "attempt", "request", "schedule", "service")
_NAMED = re.compile(r"(?:(\w+)[ =])?%(?:[-.0-9]*)[srdfgi]")  # each value of a message, with the word before it
OFF, ON = ("", "0", "off"), ("1", "on")


def show_log(*, verbose: bool, json: bool) -> None:
    """Show what is logged from now on. The variable wins over the options: it can ask for more."""
    level, as_json = _wanted(os.environ.get(LOG, ""))
    logger = logging.getLogger("perdure")
    logger.setLevel(LEVELS[level or ("info" if verbose else "warning")])
    for old in [one for one in logger.handlers if isinstance(one, StandardError)]:
        logger.removeHandler(old)
    handler = StandardError()
    handler.setFormatter(
        JsonFormatter() if json or as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logger.addHandler(handler)


def _wanted(given: str) -> tuple[str, bool]:
    """The level that the variable names, or nothing, and whether it asks for JSON."""
    words = [word.strip() for word in given.lower().split(",") if word.strip()]
    levels = [word for word in words if word != AS_JSON]
    if len(levels) > 1 or any(word not in LEVELS for word in levels):
        raise ConfigError(
            f"{LOG} is {given!r:.80}.", hint=f"Set it to one of: {', '.join(LEVELS)}; add `,json` for JSON."
        )
    return levels[0] if levels else "", AS_JSON in words


def report_telemetry() -> None:
    """Report to OpenTelemetry from now on, if the environment says so."""
    given = os.environ.get(TELEMETRY, "")
    if given.lower() in OFF:
        return
    if given.lower() not in ON:
        raise ConfigError(f"{TELEMETRY} is {given!r:.80}.", hint="Set it to `on`, or leave it out.")
    from perdure.runtime.telemetry.configuration import instrument_from_environment

    instrument_from_environment()


class StandardError(logging.StreamHandler[TextIO]):
    """Writes to what is standard error at that moment, unless the application has handlers of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers and sys.stderr is not None:
            self.stream = sys.stderr
            super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        return mask(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object a line, as every other line that a command with `--json` writes.

    The ids that the message names are fields too, so that a log can be searched by session, effect or trace.
    """

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        about = {"time": self.formatTime(record), "level": record.levelname.lower(), "logger": record.name}
        return json_.dumps({"log": about | {"message": text} | named_ids(record)}, ensure_ascii=False)


def named_ids(record: logging.LogRecord) -> dict[str, str]:
    """The ids that a message names: what stands in it after the word `session`, `effect`, `request` and so on.

    The words are read from the template of the message, never from its values. With telemetry on, the current trace
    and span are added.
    """
    values = record.args if isinstance(record.args, tuple) else ()
    found = {
        name.lower(): str(value)
        for name, value in zip(_NAMED.findall(str(record.msg)), values, strict=False)
        if name.lower() in IDS
    }
    if (ids := hook.current_ids()) is not None:
        found |= {"trace_id": ids[0], "span_id": ids[1]}
    return found
