"""Settings: from `perdure.toml` in the current folder, then from the environment, the latter winning."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from perdure.errors import ConfigError


class Setting(msgspec.Struct, frozen=True):
    """One thing that can be set."""

    name: str
    env: str
    meaning: str
    default: str


SETTINGS: tuple[Setting, ...] = (
    Setting("store", "PERDURE_STORE", "Where sessions are kept.", "perdure.db in the user's data folder"),
    Setting("app", "PERDURE_APP", "Modules that define programs and tools, separated by commas.", "none"),
    Setting("by", "PERDURE_BY", "Who acts when a person answers, votes or settles.", "whoever is logged in"),
    Setting(
        "artifacts", "PERDURE_ARTIFACTS", "The folder for large things of a store without one.", "beside the store"
    ),
    Setting("model", "PERDURE_MODEL", "The model of an agent that is given none, such as anthropic:NAME.", "none"),
    Setting("base_url", "PERDURE_BASE_URL", "Where a model's server is, if not at its provider.", "the provider's"),
    Setting("connections", "PERDURE_CONNECTIONS", "How many PostgreSQL connections write at once.", "8"),
)


def read_settings(folder: Path | None = None) -> dict[str, str]:
    """What is set here, by name. A name that is not a setting is an error, not a surprise later."""
    values: dict[str, Any] = {}
    path = (folder or Path.cwd()) / "perdure.toml"
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
    known = {setting.name for setting in SETTINGS}
    if unknown := sorted(values.keys() - known):
        raise ConfigError(f"perdure.toml sets {unknown[0]!r}, which is no setting.", hint=f"Known: {sorted(known)}.")
    settings = {
        name: ",".join(map(str, value)) if isinstance(value, list) else str(value) for name, value in values.items()
    }
    for setting in SETTINGS:
        if (given := os.environ.get(setting.env)) is not None:
            settings[setting.name] = given
    return settings


def default_store() -> Path:
    """The user's own store."""
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "perdure" / "perdure.db"
