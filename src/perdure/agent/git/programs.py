"""The settings of git that name a program, and how git is kept from running one that a repository names.

The settings of a repository (`.git/config`, what it includes, those of its worktrees) are data. Git
outside the sandbox runs no program that they name. Settings with a fixed name are overridden for every git that we
start: no monitor, pager or editor, no fetch of missing objects, no protocol. Settings with a name of their own, such as
filters, are looked up and set to nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from perdure.agent.commands.executables import search_path
from perdure.agent.commands.sandbox import ADDED

PERSONAL = frozenset({"system", "global"})  # the scopes of the user's own settings
SETTINGS = (
    *("core.fsmonitor=false", "core.pager=cat", "core.editor=true", "sequence.editor=true", "core.askPass="),
    *("core.alternateRefsCommand=false", "gc.auto=0", "maintenance.auto=false", "submodule.recurse=false"),
    *("log.showSignature=false", "protocol.ext.allow=never", "safe.bareRepository=explicit"),
)
FILTER = re.compile(r"filter\.(.+)\.(clean|smudge|process)", re.DOTALL)
HOOK = re.compile(r"hook\..+\.command", re.DOTALL)
SIGNS = re.compile(r"gpg\.(.+\.)?program|gpg\.ssh\.defaultkeycommand", re.DOTALL)
REACHES = re.compile(
    r"core\.(sshcommand|gitproxy|alternaterefscommand)|credential\.(.+\.)?helper"
    r"|remote\..+\.(receivepack|uploadpack|vcs)",
    re.DOTALL,
)
_OTHER = re.compile(
    r"diff\.external|diff\..+\.(command|textconv)|merge\..+\.driver|interactive\.difffilter|uploadpack\.packobjectshook"
    r"|(difftool|mergetool|browser|man)\..+\.(cmd|path)|trailer\..+\.(command|cmd)|pager\..+|alias\..+"
    r"|submodule\..+\.update|sendemail\.(.+\.)?(smtpserver|sendmailcmd|tocmd|cccmd|headercmd)|imap\.tunnel"
    r"|guitool\..+\.cmd|tar\..+\.command|web\.browser|instaweb\..+|init\.templatedir",
    re.DOTALL,
)
_PROGRAM_KEYS = (FILTER, HOOK, SIGNS, REACHES, _OTHER)

_NEEDED = frozenset(["HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CONFIG_HOME"])
_USER_NAMES = frozenset(
    [
        *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT"),
        *("GNUPGHOME", "GPG_AGENT_INFO", "GPG_TTY", "KRB5CCNAME"),
        *("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"),
    ]
)
PROTOCOLS = "file:git:http:https:ssh"  # for a push; every other git command uses none


def names_program(key: str) -> bool:
    """Whether a setting names a program; `key` is its name as `git config --list` prints it."""
    return any(one.fullmatch(key) for one in _PROGRAM_KEYS)


def disable(keys: Collection[str]) -> dict[str, str]:
    """Settings that make git treat none of these keys as a program."""
    chosen = {key: "" if FILTER.fullmatch(key) or key.endswith(".helper") else "false" for key in keys}
    chosen |= {key: "none" for key in keys if key.startswith("submodule.")}
    chosen |= {f"filter.{found[1]}.required": "false" for key in keys if (found := FILTER.fullmatch(key))}
    return chosen


def as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment that passes these settings to git. Unlike `-c`, it can pass a key that contains a `=`."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for nth, (key, value) in enumerate(settings.items()):
        variables |= {f"GIT_CONFIG_KEY_{nth}": key, f"GIT_CONFIG_VALUE_{nth}": value}
    return variables


def environment(folder: Path, *, personal: bool = False, network: bool = False) -> dict[str, str]:
    """The environment of git outside the sandbox: the variables that it needs, and those that the user adds.

    `personal` adds the variables of the user's key agents; `network` lets git reach a remote.
    """
    added = {name.strip() for name in os.environ.get(ADDED, "").split(",")}
    wanted = _NEEDED | added | (_USER_NAMES if personal else frozenset())
    kept = {name: value for name, value in os.environ.items() if name in wanted or name.startswith("LC_")}
    return kept | {
        "PATH": search_path(folder),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": PROTOCOLS if network else "",
    }
