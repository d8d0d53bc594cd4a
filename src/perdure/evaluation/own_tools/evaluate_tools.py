"""`perdure evaluate crash --app MODULE`: from the user's modules to a report."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

import perdure
from perdure.errors import ConfigError
from perdure.evaluation.own_tools.examination import examine, laboratory
from perdure.evaluation.own_tools.process import ProcessSettings
from perdure.evaluation.own_tools.subject import find_subjects, packages_of
from perdure.evaluation.own_tools.tool_report import ToolConclusion, write_report

Progress = Callable[[str, int, int], None]
SOME = 3  # in the short form, of the kill points that many operations share


class ToolEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What to evaluate. The app has been imported; `apps` names it for the processes that are killed."""

    apps: list[str]
    calls: list[str] = []
    environment: list[str] = []
    observe: str = ""
    allowed: list[str] = []
    honours_keys: bool = True
    full: bool = False
    command: str = ""


def evaluate_tools(folder: Path, given: ToolEvaluation, progress: Progress | None = None) -> ToolConclusion:
    """Examine every tool and program of the app, and write the report."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty.", hint="Name another folder with --to.")
    if given.observe and ":" not in given.observe:
        raise ConfigError(f"{given.observe!r} is not of the form MODULE:FUNCTION.", hint="Name a function of your app.")
    subjects = find_subjects(given.calls)
    settings = ProcessSettings(
        allowed=given.allowed, packages=packages_of(subjects), observe=given.observe, inflight=0.05
    )
    verdicts = []
    with (
        tempfile.TemporaryDirectory(prefix="perdure-tools-") as home,
        laboratory(
            given.apps, Path(home), settings, environment=dict(map(_setting, given.environment)),
            honours_keys=given.honours_keys, every=1 if given.full else SOME,
        ) as bench,
    ):  # fmt: skip
        for number, one in enumerate(subjects):
            verdicts.append(examine(bench, one))
            if progress is not None:
                progress("tools and programs", number + 1, len(subjects))
    return write_report(folder, verdicts, _about(given))


def _setting(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise ConfigError(f"{word!r} is not of the form NAME=VALUE.", hint="Type it as --env API_URL={sink}.")
    return name, value


def _about(given: ToolEvaluation) -> Sequence[tuple[str, str]]:
    outside = f"as {given.observe} shows it" if given.observe else "a sink of Perdure on this machine"
    keys = "honoured" if given.honours_keys else "ignored"
    return (
        ("command", given.command),
        ("machine", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"),
        ("versions", f"perdure {perdure.__version__}"),
        ("the outside", outside),
        ("idempotency keys at the sink", "not used" if given.observe else keys),
        ("allowed hosts", ", ".join(given.allowed) or "none beyond this machine"),
        ("inflight", "shortened to at most 50 ms; the declared times are not tested"),
    )
