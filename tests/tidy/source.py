"""Helpers with which the tidy tests read the project's own files."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def files(*folders: str, suffix: str = ".py") -> list[Path]:
    """Every file with this suffix in the folders, sorted."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob(f"*{suffix}"))


def relative(path: Path) -> str:
    """The path from the root of the project: `src/perdure/clock.py`."""
    return path.relative_to(ROOT).as_posix()


def text(path: Path | str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(text(path), filename=str(path))


@cache
def references(tree: ast.AST) -> tuple[tuple[str, int], ...]:
    """Every imported or builtin name that the code uses, in full and with its line.

    `import time as t; t.monotonic()` gives `time` and `time.monotonic`; `eval(x)` gives `builtins.eval`.
    """
    return tuple(_references(tree))


def _references(tree: ast.AST) -> Iterator[tuple[str, int]]:
    origin: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                package = alias.name.partition(".")[0]
                origin[alias.asname or package] = alias.name if alias.asname else package
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                origin[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}", node.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and (parts := _dotted(node)):
            root, *rest = parts
            if root in origin:
                yield ".".join([origin[root], *rest]), node.lineno
            elif isinstance(node, ast.Name):
                yield f"builtins.{root}", node.lineno


def _dotted(node: ast.expr) -> list[str]:
    """The parts of a name such as `os.path.join`; none for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def uses(tree: ast.AST, *names: str) -> list[int]:
    """The lines that import or use one of the names, or anything inside it."""
    return sorted({line for full, line in references(tree) if any(f"{full}.".startswith(f"{name}.") for name in names)})


def literals(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every string in the code that is not a docstring. Fields of an f-string appear as `{}`."""
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
            parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield "".join(parts), node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value, node.lineno
