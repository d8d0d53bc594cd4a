"""The user's code: modules that define programs and tools, imported because the user named them.

This is the only place of the command line that imports by name. The name comes from the command line or the settings,
never from a row. Importing registers what the module declares with `@program` and `@tool`.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from importlib import import_module, util
from importlib.machinery import PathFinder
from pathlib import Path

from perdure.errors import ConfigError


def split_names(setting: str) -> list[str]:
    """The names in a setting, separated by commas."""
    return [name.strip() for name in setting.split(",") if name.strip()]


def load_apps(names: Iterable[str]) -> None:
    """Import each module, by its name or by its path. The current folder is searched last.

    Last, because that folder may not be the user's own: a file in it must not replace an installed module.
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
            raise _import_error(name, error) from error


def check_apps(names: Iterable[str]) -> None:
    """Refuse what is no file and no module, without running code: a supervisor imports none."""
    for name in names:
        if name.endswith(".py"):
            if not (path := Path(name).absolute()).is_file():
                raise _import_error(name, FileNotFoundError(f"{path} does not exist"))
        elif not _is_found(top := name.partition(".")[0]):
            raise _import_error(name, ModuleNotFoundError(f"No module named {top!r}"))


def _is_found(module: str) -> bool:
    try:
        return (util.find_spec(module) or PathFinder.find_spec(module, [str(Path.cwd())])) is not None
    except (ImportError, ValueError):  # an odd name: the import says what is wrong with it
        return True


def _load_file(path: Path) -> None:
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"perdure app {path}"
    if any(getattr(sys.modules.get(known), "__file__", None) == str(path) for known in (path.stem, name)):
        return
    spec = util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    if (folder := str(path.parent)) not in sys.path:
        sys.path.append(folder)
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _is_user_code(file: str) -> bool:
    return "importlib" not in file and not Path(file).is_relative_to(Path(__file__).parents[1])


def _import_error(name: str, error: BaseException) -> ConfigError:
    """Which app cannot be imported, why, and in which line of the user's code."""
    message = str(error).strip().rstrip(".") or "no message"
    where = ""
    if not isinstance(error, ImportError | SyntaxError):
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user_code(frame.filename)]
        if frames:
            where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    return ConfigError(
        f"The app {name} cannot be imported: {type(error).__name__}: {message}{where}.",
        hint="--app takes the name of a module, as seen from the current folder, or the path of a .py file.",
    )
