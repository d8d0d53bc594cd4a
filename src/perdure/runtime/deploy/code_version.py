"""The version of the code that is loaded here: which programs and tools, from which source.

A deployment names its version (`PERDURE_CODE_VERSION`, `--code-version`). Without a name the version is a digest of the
files of the modules that define programs and tools: of the whole package if such a module is in one, so that a change
of a helper counts. It must be the same on every machine with the same files, so no path of a machine enters it.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from perdure.domain.wait import Wait
from perdure.ids import digest, storable
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.definitions.tool import TOOLS

ENVIRONMENT = "PERDURE_CODE_VERSION"
LARGEST = 200  # characters of a version
FILES = 10_000  # of a package; more are not read
OWN = Path(__file__).parents[2]


def current_version(given: str | None = None) -> str:
    """The version of the code of this process: the given one, that of the environment, or a digest of its files."""
    named = (given or os.environ.get(ENVIRONMENT) or "").strip()
    return storable(named[:LARGEST]) or f"files-{files_digest(_functions().values())[:16]}"


def meets(asked: Wait, version: str) -> bool:
    """Whether the code of this process, which has this version, may run a session that waits for `program`."""
    return (asked.ref in PROGRAMS or asked.ref in TOOLS) and version not in asked.versions_tried


def code_digests() -> dict[str, str]:
    """The digest of the source of each program and tool, by `program:NAME` and `tool:NAME`."""
    return {name: source_digest(function) for name, function in sorted(_functions().items())}


def _functions() -> dict[str, Callable[..., Any]]:
    programs = {f"program:{one.name}": one.function for one in PROGRAMS.values()}
    return programs | {f"tool:{one.name}": one.function for one in TOOLS.values()}


def source_digest(function: Callable[..., Any]) -> str:
    """The digest of a function's source, or of its module's file if the source cannot be read."""
    if _module(function).partition(".")[0] == "perdure":
        return files_digest([function])[:16]  # it has the version of Perdure
    try:
        lines = inspect.getsource(inspect.unwrap(function)).splitlines()
    except (OSError, TypeError, SyntaxError):
        return files_digest([function])[:16]
    return digest("\n".join(line.rstrip() for line in lines if line.strip()))[:16]


def _module(function: Callable[..., Any]) -> str:
    return getattr(inspect.unwrap(function), "__module__", None) or ""


def files_digest(functions: Iterable[Callable[..., Any]]) -> str:
    """The digest of the files of the modules that define these functions. Perdure's own count as its version."""
    found = sha256(f"perdure {sys.modules['perdure'].__version__}".encode())
    names = sorted(set(map(_module, functions)))
    tops = {name if name == "__main__" else name.partition(".")[0]: name for name in names}
    for top, name in sorted(tops.items()):
        for shown, path in _files_of(top, name):
            try:
                content = path.read_bytes()
            except OSError:
                content = b""
            found.update(f"\0{shown}\0{len(content)}\0".encode() + content)
    return found.hexdigest()


def _files_of(top: str, name: str) -> Iterator[tuple[str, Path]]:
    """The source files of a package, or of the one module, with names that do not depend on the machine."""
    package = sys.modules.get(top)
    for folder in map(Path, sorted(getattr(package, "__path__", ()))):
        if folder == OWN:
            continue
        files = (Path(at, file) for at, _, names in os.walk(folder) for file in names if file.endswith(".py"))
        for path in sorted(files)[:FILES]:
            yield f"{top}/{path.relative_to(folder).as_posix()}", path
    if not hasattr(package, "__path__") and (file := getattr(sys.modules.get(name), "__file__", None)):
        yield Path(file).name, Path(file)
