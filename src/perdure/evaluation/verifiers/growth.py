"""The verdict on growth: was every step that was timed also recorded, and did a session keep the history it had?

Runs alone, with the standard library only: `python -I -S growth.py FOLDER` prints one JSON line for each trial.

Each trial left `cells.jsonl`. A turn has four lines: a message, a call, its result, an answer. A cell is wrong if its
session had fewer lines than its history has messages, or if the timed steps did not add four lines each: then what was
timed is not what was claimed.
"""

import json
import sys
from pathlib import Path
from typing import Any

LINES = 4  # of one turn


def verify(folder: Path) -> dict[str, Any]:
    """The verdict on one trial, from its raw files."""
    cells = [json.loads(line) for line in (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines()]
    short = [one["messages"] for one in cells if one["before"] < one["messages"]]
    unrecorded = [one["messages"] for one in cells if one["after"] - one["before"] != LINES * one["steps"]]
    findings = {}
    if short:
        findings["lines_lost"] = f"the sessions of {short} messages have fewer lines"
    if unrecorded:
        findings["steps_unrecorded"] = f"the timed steps were not recorded at {unrecorded} messages"
    verdicts = {"cells": len(cells), "lines_lost": len(short), "steps_unrecorded": len(unrecorded)}
    return {
        "trial": folder.name,
        "verdicts": verdicts,
        "findings": findings,
        "void": "" if cells else "no cell was measured",
    }


def main() -> None:
    for folder in sorted(path for path in Path(sys.argv[1]).iterdir() if (path / "cells.jsonl").exists()):
        sys.stdout.write(json.dumps(verify(folder), sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
