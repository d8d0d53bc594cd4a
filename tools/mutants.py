"""Plant realistic mistakes one at a time, and see whether the tests catch each: `make mutants`.

    copy      the tree, so that nothing here is touched
    check     the chosen tests pass without a mistake, or their answer would mean nothing
    plant     one mistake: a piece of text that occurs once in its file is replaced
    run       the tests that should notice; a failing test caught it

The list is in `tools/mutant_list.py`. A survivor is a missing test. Takes minutes, so it is not part of the gate.
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
LIMIT = 300.0  # seconds for the tests of one mutant: one that hangs is caught too
PASSED, FAILED = 0, 1


def copy_tree(target: Path) -> None:
    """What git tracks here, as it is in the working tree, and what is new."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def run_tests(tree: Path, tests: Iterable[str]) -> int:
    """The exit status of pytest over some tests, with the code of this tree."""
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
        "not postgres and not soak",
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
    """Replace the piece of text; returns the file as it was."""
    path = tree / "src" / "perdure" / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: the text to replace occurs {text.count(mutant.old)} times in {mutant.file}.")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    return text


def judge(tree: Path, mutant: Mutant) -> str:
    before = plant(tree, mutant)
    try:
        code = run_tests(tree, mutant.tests)
    finally:
        (tree / "src" / "perdure" / mutant.file).write_text(before, encoding="utf-8")
    return {PASSED: "survived", FAILED: "caught"}.get(code, f"pytest ended with {code}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of the mutants to try; all by default")
    parser.add_argument("--list", action="store_true", help="print the list and stop")
    parser.add_argument("--unchecked", action="store_true", help="do not run the tests without a mistake first")
    given = parser.parse_args()
    chosen = [one for one in MUTANTS if not given.names or any(name in one.name for name in given.names)]
    if given.list:
        print("\n".join(f"{one.name}: {one.file}" for one in chosen))
        return 0
    with tempfile.TemporaryDirectory(prefix="perdure-mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        if not given.unchecked and run_tests(tree, sorted({test for one in chosen for test in one.tests})) != PASSED:
            raise SystemExit("The tests fail without a mistake, so they cannot tell one.")
        verdicts = {}
        for one in chosen:
            verdicts[one.name] = judge(tree, one)
            print(f"{verdicts[one.name]:10} {one.name}", flush=True)
    caught = sum(verdict == "caught" for verdict in verdicts.values())
    print(f"{caught} of {len(chosen)} caught ({100 * caught / max(1, len(chosen)):.0f} %)")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
