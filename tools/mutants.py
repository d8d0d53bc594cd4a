"""Plant known mistakes one at a time and check that the tests catch each of them: `make mutants`.

    copy      copy the tree, so that the working tree is not changed
    check     run the chosen tests without a mistake; they must pass
    plant     make one mistake: replace a text that occurs once in its file
    run       run the tests that should catch it; a failing test caught it

The list is in `tools/mutant_list.py`. A mutant that survives shows a missing test. The run takes a quarter of an hour,
so it is not part of CI.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tools.mutant_list import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
LIMIT = 300.0  # seconds for the tests of one mutant; a hanging test counts as failed
PASSED, FAILED = 0, 1


def copy_tree(target: Path) -> None:
    """Copy the working tree: files that git tracks, and new files."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def run_tests(tree: Path, tests: Iterable[str], *, postgres: bool = False) -> int:
    """Run tests with the code of this tree; return the exit status of pytest."""
    environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "not soak" if postgres else "not postgres and not soak",
        *tests,
    ]
    try:
        ended = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return FAILED
    return ended.returncode


def plant(tree: Path, mutant: Mutant) -> str:
    """Replace the text; return the previous content of the file."""
    path = tree / "src" / "perdure" / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: the text to replace occurs {text.count(mutant.old)} times in {mutant.file}.")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    return text


def verdict(tree: Path, mutant: Mutant) -> str:
    before = plant(tree, mutant)
    try:
        code = run_tests(tree, mutant.tests, postgres=mutant.postgres)
    finally:
        (tree / "src" / "perdure" / mutant.file).write_text(before, encoding="utf-8")
    return {PASSED: "survived", FAILED: "caught"}.get(code, f"pytest ended with {code}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="substrings of the names of mutants to try (default: all)")
    parser.add_argument("--list", action="store_true", help="print the list and stop")
    parser.add_argument("--unchecked", action="store_true", help="skip the first run without a mistake")
    given = parser.parse_args()
    chosen = [one for one in MUTANTS if not given.names or any(name in one.name for name in given.names)]
    if given.list:
        print("\n".join(f"{one.name}: {one.file}" for one in chosen))
        return 0
    with tempfile.TemporaryDirectory(prefix="perdure-mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        if not given.unchecked and run_tests(tree, sorted({test for one in chosen for test in one.tests})) != PASSED:
            raise SystemExit("The tests fail without a mistake, so they cannot detect one.")
        verdicts = {}
        for one in chosen:
            verdicts[one.name] = verdict(tree, one)
            print(f"{verdicts[one.name]:10} {one.name}", flush=True)
    caught = sum(one == "caught" for one in verdicts.values())
    print(f"{caught} of {len(chosen)} caught ({100 * caught / max(1, len(chosen)):.0f} %)")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
