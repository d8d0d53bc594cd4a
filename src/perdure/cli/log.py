"""Log messages on the command line: from which level on they are shown, and how.

The library only logs, with the standard `logging` under the logger `perdure`. A command writes what is logged to
standard error, from `warning` on unless `--verbose` or PERDURE_LOG says otherwise. An application (`--app`) that
configures the root logger takes the messages over.
"""

from __future__ import annotations

import json as json_
import logging
import os
import sys
from typing import TextIO

from perdure.config import LOG
from perdure.errors import ConfigError

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def show_log(*, verbose: bool, json: bool) -> None:
    """Show what is logged from now on. The variable wins over the option: it can ask for more."""
    given = os.environ.get(LOG) or ("info" if verbose else "warning")
    if given.lower() not in LEVELS:
        raise ConfigError(f"{LOG} is {given!r}.", hint=f"Set it to one of: {', '.join(LEVELS)}.")
    logger = logging.getLogger("perdure")
    logger.setLevel(LEVELS[given.lower()])
    for old in [one for one in logger.handlers if isinstance(one, StandardError)]:
        logger.removeHandler(old)
    handler = StandardError()
    handler.setFormatter(
        JsonFormatter() if json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logger.addHandler(handler)


class StandardError(logging.StreamHandler[TextIO]):
    """Writes to what is standard error at that moment, unless the application has handlers of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers and sys.stderr is not None:
            self.stream = sys.stderr
            super().emit(record)


class JsonFormatter(logging.Formatter):
    """One JSON object a line, as every other line that a command with `--json` writes."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        about = {"time": self.formatTime(record), "level": record.levelname.lower(), "logger": record.name}
        return json_.dumps({"log": about | {"message": text}}, ensure_ascii=False)
