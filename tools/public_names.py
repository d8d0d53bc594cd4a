"""Compare the public names with the last release, and fail if a program written for that release could break.

The last release is the latest tag of the form v1.2.3 in the history of this commit. The public names are those that
`perdure` and `perdure.testing` export; the modules below them may move at any time.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[1]
PUBLIC = ("perdure", "perdure.testing")
VERB = "perdure.runtime.part_method.PartMethod"


def last_release(root: Path) -> str | None:
    """The latest release tag, or None before the first release."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


def hide_modules(tree: griffe.Object | griffe.Alias) -> None:
    """Mark modules without a public import path, so that only exported names are compared."""
    for member in tree.members.values():
        if not member.is_alias and member.is_module:
            member.public = member.path in PUBLIC
            hide_modules(member)


def declare_verbs(tree: griffe.Object | griffe.Alias, package: griffe.Object | griffe.Alias) -> None:
    """Put the method in the place of each `name = PartMethod(Part.name)`, so that its signature is compared."""
    for name, member in list(tree.members.items()):
        if member.is_alias:
            continue
        if member.is_module or member.is_class:
            declare_verbs(member, package)
        elif (method := verb_of(member)) is not None:
            tree.set_member(name, copy.copy(package[method.removeprefix(f"{package.path}.")]))


def verb_of(member: griffe.Object | griffe.Alias) -> str | None:
    """The path of the method that a class offers as a verb."""
    declared = member.value if isinstance(member, griffe.Attribute) else None
    if not isinstance(declared, griffe.ExprCall) or declared.function.canonical_path != VERB:
        return None
    (method,) = declared.arguments
    return method.canonical_path if isinstance(method, griffe.Expr) else None


def breakages(root: Path, tag: str) -> list[str]:
    """The breaking changes since the release, one line each."""
    old = griffe.load_git("perdure", ref=tag, repo=root, search_paths=["src"], resolve_aliases=True)
    new = griffe.load("perdure", search_paths=[root / "src"], resolve_aliases=True)
    for one in (old, new):
        declare_verbs(one, one)
        hide_modules(one)
    return [one.explain(griffe.ExplanationStyle.ONE_LINE) for one in griffe.find_breaking_changes(old, new)]


def main(root: Path) -> int:
    if (tag := last_release(root)) is None:
        print("There is no release to compare with yet.")
        return 0
    found = breakages(root, tag)
    print(*found, sep="\n") if found else print(f"No public name of {tag} has changed in a breaking way.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(ROOT))
