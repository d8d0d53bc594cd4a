"""`python -m benchmarks [GROUP ...]`: one table per group and database, printed line by line as it is measured."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import tempfile
from pathlib import Path

import apsw
import msgspec

from benchmarks.measure import MINUTES, Line, Table

# A group is a module with `tables(folder, rounds)`. It is imported on demand, because peers need other packages.
GROUPS = {
    name: f"benchmarks.{name}"
    for name in (
        "store",
        "effects",
        "policy",
        "agent",
        "snapshot",
        "interrupt",
        "control",
        "audit",
        "service",
        "telemetry",
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; by default all")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds")
    parser.add_argument("--only", default="", help="only tables whose title contains this, such as SQLite")
    parser.add_argument("--minutes", type=float, help="how long the memory of the service is watched (default: 1)")
    chosen = parser.parse_args()
    if chosen.minutes is not None:
        os.environ[MINUTES] = str(chosen.minutes)
    if unknown := set(chosen.groups) - GROUPS.keys():
        parser.error(f"no group is called {', '.join(sorted(unknown))}")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(f"SQLite {apsw.sqlite_lib_version()}, {chosen.rounds} rounds\n")
    with tempfile.TemporaryDirectory(prefix="perdure-bench-", dir=os.environ.get("PERDURE_BENCH_DIR")) as folder:
        for name in chosen.groups or GROUPS:
            for table in importlib.import_module(GROUPS[name]).tables(Path(folder), chosen.rounds):
                if chosen.only.lower() in table.title.lower():
                    show(table)


def show(table: Table) -> None:
    print(f"### {table.title}\n")
    print("| case | raw | Perdure | ratio (min–max) | budget | verdict |\n|---|---|---|---|---|---|", flush=True)
    for line in table.lines:
        print(row(line), flush=True)
    print()


def row(line: Line) -> str:
    return "| " + " | ".join(msgspec.structs.astuple(line)) + " |"


if __name__ == "__main__":
    main()
