"""The user's code: modules that define programs and tools, imported because a person named them.

This is the one place that imports by a name, and the name comes from the command line or the settings, never from a
row. Importing registers what the module declares with `@program` and `@tool`.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from importlib import import_module, util
from pathlib import Path

from perdure.errors import ConfigError


def named(setting: str) -> list[str]:
    """The names in a setting, which may hold several."""
    return [name.strip() for name in setting.split(",") if name.strip()]


def load(names: Iterable[str]) -> None:
    """Import each, by its name or by its path; the current folder is looked at last.

    Last, because that folder may be anybody's: a file of it must not take the place of an installed module.
    """
    here = str(Path.cwd())
    for name in names:
        if here not in sys.path:
            sys.path.append(here)
        try:
            if name.endswith(".py"):
                _load_file(Path(name).absolute())
            else:
                import_module(name)
        except (Exception, SystemExit) as error:
            raise _complaint(name, error) from error


def _load_file(path: Path) -> None:
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"perdure app {path}"
    if any(getattr(sys.modules.get(known), "__file__", None) == str(path) for known in (path.stem, name)):
        return
    spec = util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if (folder := str(path.parent)) not in sys.path:
        sys.path.append(folder)
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _is_theirs(file: str) -> bool:
    return "importlib" not in file and not Path(file).is_relative_to(Path(__file__).parents[1])


def _complaint(name: str, error: BaseException) -> ConfigError:
    """One sentence: what cannot be imported, why, and in which line of whose code."""
    said = str(error).strip().rstrip(".") or "no message"
    where = ""
    if not isinstance(error, ImportError | SyntaxError):
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_theirs(frame.filename)]
        if frames:
            where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    return ConfigError(
        f"The app {name} cannot be imported: {type(error).__name__}: {said}{where}.",
        hint="--app takes the name of a module, as seen from the current folder, or the path of a .py file.",
    )
