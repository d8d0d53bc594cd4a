"""Settings: from the user's own file, from `perdure.toml` in the current folder, from the environment; the last wins.

A file in a folder is only data. `perdure.toml` may come with a cloned repository, and an agent may have written it. A
setting that names code, an address, a store, a person or a model counts from there only after the user trusted exactly
this content. The caller passes the function that decides this (`trusts`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from perdure.errors import ConfigError


class Setting(msgspec.Struct, frozen=True):
    """One setting."""

    name: str
    env: str
    meaning: str
    default: str
    kind: Literal["text", "number", "list", "tables"] = "text"  # its type in perdure.toml; text is always allowed


SETTINGS: tuple[Setting, ...] = (
    Setting("store", "PERDURE_STORE", "The address of the store.", "perdure.db in the user's data folder"),
    Setting("app", "PERDURE_APP", "Modules that define programs and tools, separated by commas.", "none", "list"),
    Setting("by", "PERDURE_BY", "The name to record for answers, votes and verdicts.", "the current user"),
    Setting("artifacts", "PERDURE_ARTIFACTS", "The folder for large data of a store without one.", "next to the store"),
    Setting("model", "PERDURE_MODEL", "The default model of an agent, such as anthropic:NAME.", "none"),
    Setting(
        "base_url",
        "PERDURE_BASE_URL",
        "The address of the model server, if it is not the provider's.",
        "the provider's",
    ),
    Setting(
        "environment",
        "PERDURE_ENVIRONMENT",
        "More environment variables that an agent's commands may see.",
        "none",
        "list",
    ),
    Setting(
        "readable",
        "PERDURE_READABLE",
        "More paths in home folders that commands may read, separated by colons.",
        "none",
    ),
    Setting(
        "connections", "PERDURE_CONNECTIONS", "How many PostgreSQL connections write at the same time.", "8", "number"
    ),
    Setting(
        "code_version",
        "PERDURE_CODE_VERSION",
        "The version of the deployed code, such as a commit.",
        "a digest of the files of the app's modules",
    ),
    Setting(
        "workspace",
        "PERDURE_WORKSPACE",
        "A name for the files of this machine; machines that share their folders share the name.",
        "the machine",
    ),
    Setting(
        "notifications",
        "PERDURE_NOTIFICATIONS",
        "Where people are told: a table for each channel; as JSON in the environment.",
        "none",
        "tables",
    ),
    Setting(
        "secrets",
        "PERDURE_SECRETS",
        "Secrets whose values are replaced in output, as references such as env:NAME; models may use them by these.",
        "none",
        "list",
    ),
    Setting("lease", "PERDURE_LEASE", "After how long without a sign of life a worker loses its sessions.", "15s"),
)
HARMLESS = frozenset({"connections"})  # what perdure.toml may set without trust
FILE = "perdure.toml"
STORE_KINDS = (
    "Use a path, memory:, files:DIR or postgresql://…, or a service: https://HOST, http://127.0.0.1:PORT or unix:PATH."
)
SERVICES = ("http://", "https://", "unix:")
LARGEST = 64 << 10  # bytes of a settings file
IGNORE_FOLDER = "PERDURE_IGNORE_FOLDER"  # do not read perdure.toml in the current folder; only in the environment
DEBUG = "PERDURE_DEBUG"  # shows the traceback of an unexpected error; only in the environment
LOG = "PERDURE_LOG"  # the log messages that the command line shows, and whether as JSON; only in the environment
TOKEN = "PERDURE_TOKEN"  # the token for a service; only in the environment
TOKEN_FILE = "PERDURE_TOKEN_FILE"  # a file with the token, that only its user can read; only in the environment
TELEMETRY = "PERDURE_TELEMETRY"  # `on`: report to OpenTelemetry; only in the environment
OTHERS = (
    DEBUG,
    IGNORE_FOLDER,
    LOG,
    TELEMETRY,
    TOKEN,
    TOKEN_FILE,
    "PERDURE_EVALUATION",
    "PERDURE_SINK",
)  # other variables of Perdure, which are not settings


def read_settings(folder: Path | None = None, trusts: Callable[[Path, str], None] | None = None) -> dict[str, str]:
    """The settings in force, by name. An unknown name is an error.

    `trusts` gets the path and the text of perdure.toml if it sets more than harmless settings, and raises if the user
    does not trust it. Without `trusts` such a file is refused.
    """
    settings = _parse(user_file(), read_file(user_file(), follow_links=True))
    if not os.environ.get(IGNORE_FOLDER):
        path = (folder or current_folder()) / FILE
        text = read_file(path)
        found = _parse(path, text)
        if found.keys() - HARMLESS:
            (trusts or refuse_untrusted)(path, text)
        settings |= found
    for setting in SETTINGS:
        if (given := os.environ.get(setting.env)) is not None:
            settings[setting.name] = given
    return settings


def refuse_untrusted(path: Path, _: str) -> None:
    """Raise the error for an untrusted perdure.toml."""
    raise ConfigError(
        f"{path} is not trusted, so nothing was done. It could run code, and choose the store and the model.",
        hint=f"Read it with `perdure trust`, or set {IGNORE_FOLDER}=1 to work without it.",
    )


def user_file() -> Path:
    """The user's own settings, which apply in every folder."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "perdure" / "config.toml"


def read_file(path: Path, *, follow_links: bool = False) -> str:
    """The text of a settings file; empty if there is none. Only a regular file of a reasonable size is read."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        why = "it is a symbolic link" if path.is_symlink() else error.strerror
        raise ConfigError(f"{path} cannot be read: {why}.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigError(f"{path} is not a regular file.")
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ConfigError(f"{path} is larger than {LARGEST >> 10} KiB.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from None


def _parse(path: Path, text: str) -> dict[str, str]:
    if not text:
        return {}
    import tomllib  # late: every command runs this, and few folders have the file

    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {str(error) or 'it is nested too deeply'}.") from None
    known = {setting.name: setting for setting in SETTINGS}
    if unknown := sorted(values.keys() - known.keys()):
        raise ConfigError(f"{path} sets {unknown[0]!r}, which is not a setting.", hint=f"Known: {sorted(known)}.")
    return {name: _text(path, known[name], value) for name, value in values.items()}


def _text(path: Path, setting: Setting, value: Any) -> str:
    """A value of the file as text. A value of the wrong type is refused, such as a store called `3`."""
    if isinstance(value, str):
        return value
    if setting.kind == "number" and type(value) is int:
        return str(value)
    if setting.kind == "list" and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    if setting.kind == "tables" and isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    wanted = {"text": "text", "number": "a whole number", "list": "text, or a list of texts", "tables": "tables"}[
        setting.kind
    ]
    example = {"text": '"..."', "number": "8", "list": '["...", "..."]', "tables": "{ NAME = { kind = ... } }"}[
        setting.kind
    ]
    raise ConfigError(
        f"{path} sets `{setting.name}` to a value that is not {wanted}.",
        hint=f"Write it as {setting.name} = {example}",
    )


def mistyped_names() -> list[tuple[str, str]]:
    """Unknown `PERDURE_` variables in the environment that resemble a known one, with the known one."""
    known = {name.removeprefix("PERDURE_") for name in (*OTHERS, *(setting.env for setting in SETTINGS))}
    given = {name.removeprefix("PERDURE_") for name in os.environ if name.startswith("PERDURE_")}
    if not (unknown := sorted(given - known)):
        return []
    from difflib import get_close_matches  # late: rarely needed

    near = [(name, get_close_matches(name, known, n=1, cutoff=0.7)) for name in unknown]
    return [(f"PERDURE_{name}", f"PERDURE_{found[0]}") for name, found in near if found]


def current_folder() -> Path:
    """The working folder of the process, which may have been removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigError(
            "The current folder no longer exists.", hint="Change to an existing folder, then run again."
        ) from None


def is_service(target: object) -> bool:
    """Whether the address of a store is that of a service."""
    return isinstance(target, str) and target.startswith(SERVICES)


def data_folder() -> Path:
    """The data folder of the user."""
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "perdure"


def configured_stores() -> list[str]:
    """The stores that the user's own file and the environment name; nothing where the file cannot be read."""
    found = [os.environ.get("PERDURE_STORE", "")]
    with suppress(ConfigError, OSError):
        found.append(_parse(user_file(), read_file(user_file(), follow_links=True)).get("store", ""))
    return [one for one in found if one.strip() and "\0" not in one]


def default_store() -> Path:
    """The user's own store."""
    return data_folder() / "perdure.db"


SECRETS = frozenset({"password", "sslpassword"})  # parameters of an address of PostgreSQL
DIRECT_URL = "perdure_direct_url"  # a parameter that is an address itself


def without_password(url: str, *, mask: str = "***") -> str:
    """An address that may be shown; an empty mask leaves the password out. A password may hold `/`, `?` and `#`."""
    from urllib.parse import parse_qsl, urlencode

    scheme, _, rest = url.partition("://")
    place = re.split("[/?#]", rest, maxsplit=1)[0]
    port = place.partition(":")[2]
    end = place.rfind("@") if "@" in place else rest.rfind("@") if port and not port.isdigit() else -1
    user, colon, _ = rest[: max(end, 0)].partition(":")
    address, _, query = rest[end + 1 :].partition("?")
    pairs = [
        (key, mask if key in SECRETS else without_password(value, mask=mask) if key == DIRECT_URL else value)
        for key, value in parse_qsl(query)
        if mask or key not in SECRETS
    ]
    login = "" if end < 0 else f"{user}:{mask}@" if colon and mask else f"{user}@"
    return f"{scheme}://{login}{address}" + (f"?{urlencode(pairs, safe='*/')}" if pairs else "")
