"""Settings: from `perdure.toml` in the current folder, then from the environment, the latter winning."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import msgspec

from perdure.errors import ConfigError


class Setting(msgspec.Struct, frozen=True):
    """One thing that can be set."""

    name: str
    env: str
    meaning: str
    default: str
    kind: Literal["text", "number", "list"] = "text"  # what it may be in perdure.toml, where text always may stand


SETTINGS: tuple[Setting, ...] = (
    Setting("store", "PERDURE_STORE", "Where sessions are kept.", "perdure.db in the user's data folder"),
    Setting("app", "PERDURE_APP", "Modules that define programs and tools, separated by commas.", "none", "list"),
    Setting("by", "PERDURE_BY", "Who acts when a person answers, votes or settles.", "whoever is logged in"),
    Setting(
        "artifacts", "PERDURE_ARTIFACTS", "The folder for large things of a store without one.", "beside the store"
    ),
    Setting("model", "PERDURE_MODEL", "The model of an agent that is given none, such as anthropic:NAME.", "none"),
    Setting("base_url", "PERDURE_BASE_URL", "Where a model's server is, if not at its provider.", "the provider's"),
    Setting("connections", "PERDURE_CONNECTIONS", "How many PostgreSQL connections write at once.", "8", "number"),
)
DEBUG = "PERDURE_DEBUG"  # shows where an unexpected error comes from; only in the environment, read when all else fails
OTHERS = (DEBUG, "PERDURE_SINK")  # names of ours that set nothing here


def read_settings(folder: Path | None = None) -> dict[str, str]:
    """What is set here, by name. A name that is not a setting is an error, not a surprise later."""
    values: dict[str, Any] = {}
    path = (folder or current_folder()) / "perdure.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"perdure.toml cannot be read: {error}.") from None
    if text:
        import tomllib  # late: every command passes here, and few folders have the file

        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"perdure.toml cannot be read: {error}.") from None
    known = {setting.name: setting for setting in SETTINGS}
    if unknown := sorted(values.keys() - known.keys()):
        raise ConfigError(f"perdure.toml sets {unknown[0]!r}, which is no setting.", hint=f"Known: {sorted(known)}.")
    settings = {name: _text(known[name], value) for name, value in values.items()}
    for setting in SETTINGS:
        if (given := os.environ.get(setting.env)) is not None:
            settings[setting.name] = given
    return settings


def _text(setting: Setting, value: Any) -> str:
    """A value of the file as text; one of another kind is refused, for nobody meant a store called `3`."""
    if isinstance(value, str):
        return value
    if setting.kind == "number" and type(value) is int:
        return str(value)
    if setting.kind == "list" and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    wanted = {"text": "text", "number": "a whole number", "list": "text, or a list of texts"}[setting.kind]
    example = {"text": '"..."', "number": "8", "list": '["...", "..."]'}[setting.kind]
    raise ConfigError(
        f"perdure.toml sets `{setting.name}` to something that is not {wanted}.",
        hint=f"Write it as {setting.name} = {example}",
    )


def mistyped() -> list[tuple[str, str]]:
    """Names in the environment that are none of ours and look like one that is, with that one."""
    known = {name.removeprefix("PERDURE_") for name in (*OTHERS, *(setting.env for setting in SETTINGS))}
    given = {name.removeprefix("PERDURE_") for name in os.environ if name.startswith("PERDURE_")}
    if not (unknown := sorted(given - known)):
        return []
    from difflib import get_close_matches  # late: hardly anybody mistypes

    near = [(name, get_close_matches(name, known, n=1, cutoff=0.7)) for name in unknown]
    return [(f"PERDURE_{name}", f"PERDURE_{found[0]}") for name, found in near if found]


def current_folder() -> Path:
    """Where the process stands, which somebody may have removed meanwhile."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigError(
            "The current folder is not there any more.", hint="Go to a folder that is there, and run again."
        ) from None


def default_store() -> Path:
    """The user's own store."""
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "perdure" / "perdure.db"
