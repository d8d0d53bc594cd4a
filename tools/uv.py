"""Run uv from .tools with the settings that pip has on this machine.

Users need not configure a second installer, and the repository contains no addresses: the package index and the
certificates are read from pip's configuration and passed to uv in the environment. A variable that is already set for
uv wins.

`lock` is short for the options with which we compile a lock. It uses the main index only, so that the result does not
depend on other sources of the machine.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ["pip", "compile", "--universal", "--python-version=3.11", "--generate-hashes", "--no-header"]


def pip_settings(listing: str) -> dict[str, str]:
    """Read `pip config list`. Settings of `install` override global ones, and the environment overrides both."""
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in found:
            found[section][name] = str(ast.literal_eval(value))
    return found["global"] | found["install"] | found[":env:"]


def uv_environment(pip: Mapping[str, str], *, main_index_only: bool) -> dict[str, str]:
    """Translate pip's settings into uv's variables. Hashes decide what is installed, so every source may be used."""
    wanted = {
        "UV_DEFAULT_INDEX": pip.get("index-url"),
        "UV_INSECURE_HOST": pip.get("trusted-host"),
        "SSL_CERT_FILE": pip.get("cert"),
        "UV_HTTP_TIMEOUT": pip.get("timeout", pip.get("default-timeout")),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
    }
    if not main_index_only:
        wanted["UV_EXTRA_INDEX_URL"] = pip.get("extra-index-url")
        wanted["UV_FIND_LINKS"] = ",".join(pip.get("find-links", "").split())
        wanted["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {name: " ".join(value.split()) for name, value in wanted.items() if value}


def main(arguments: list[str]) -> int:
    locking = arguments[0] == "lock"
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    environment = uv_environment(pip_settings(listing), main_index_only=locking) | os.environ
    command = [*LOCK, *arguments[1:]] if locking else arguments
    uv = ROOT / ".tools" / "bin" / "uv"
    return subprocess.call([uv, "--quiet", *command], cwd=ROOT, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
