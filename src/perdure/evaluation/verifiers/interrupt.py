"""The verdict on interrupted sessions: which continued correctly, which ask a person, and which are wrong.

Runs alone, with the standard library only: `python -I -S interrupt.py FOLDER` prints one JSON line for each trial.

Each trial left `about.jsonl` (the change of the program), `move.jsonl` (the schema before and after, the sessions, and
those that were moved), `outcomes.jsonl` (what became of each session), and `sink.jsonl` (what the outside received
since the sessions were suspended). Each had posted `before` when it was suspended, and the person says yes to all.

    correct   it is done, its result is that of the changed program, and each new effect is outside exactly once
    asks      it waits for a person or for other code, and nothing is outside that must not be
    wrong     anything else: another result, an effect repeated, missing or invented, or a session that is lost
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

KINDS = ("ask", "approval", "timer", "message")
AFTER = {"same": ["after"], "compatible": ["after", "extra"], "incompatible": ["start", "after"], "planted": ["after"]}
RESULT = {
    "same": "notes of {n}, before-{n}, yes, after-{n}",
    "compatible": "notes of {n}, before-{n}, yes, after-{n}, extra-{n}",
    "incompatible": "notes of {n}, start-{n}, before-{n}, yes, after-{n}",
    "planted": "notes of {n}, before-{n}, yes, after-{n}",
}


def expected(change: str, number: int) -> tuple[str, list[str]]:
    """The result that a person expects, and what must come to be outside."""
    approved = ["approved"] if KINDS[number % len(KINDS)] == "approval" else []
    return RESULT[change].format(n=number), approved + AFTER[change]


def judge(change: str, number: int, outcome: dict[str, Any] | None, posted: list[str]) -> str:
    """The verdict on one session."""
    result, parts = expected(change, number)
    if outcome is None or Counter(posted) - Counter(parts):
        return "wrong"
    if outcome["status"] == "done":
        return "correct" if outcome["result"] == result and Counter(posted) == Counter(parts) else "wrong"
    return "asks" if outcome["status"] == "waiting" and outcome["waits"] else "wrong"


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def verify(folder: Path) -> dict[str, Any]:
    """The verdict on one trial, from its raw files."""
    [about], [move] = read(folder / "about.jsonl"), read(folder / "move.jsonl")
    outcomes = {line["session"]: line for line in read(folder / "outcomes.jsonl")}
    posted: dict[int, list[str]] = {}
    for line in read(folder / "sink.jsonl"):
        posted.setdefault(line["number"], []).append(line["part"])
    verdicts: Counter[str] = Counter()
    wrong = []
    for name in move["sessions"]:
        number = int(name.rpartition("-")[2])
        verdict = judge(about["change"], number, outcomes.get(name), posted.get(number, []))
        place = "moved" if name in move["moved"] else "stayed"
        verdicts.update([verdict, f"{verdict}_{place}"])
        if verdict == "wrong":
            wrong.append(f"{name}: {outcomes.get(name)}, outside {posted.get(number, [])}")
    found = {f"{word}{end}": verdicts[f"{word}{end}"] for word in ("correct", "asks", "wrong") for end in ENDS}
    found["sessions"] = len(move["sessions"])
    void = "" if move["schema_before"] < move["schema_after"] and move["sessions"] else "the schema was not migrated"
    findings = {"wrong": "; ".join(wrong[:3])} if wrong else {}
    return {"trial": folder.name, "verdicts": found, "findings": findings, "void": void}


ENDS = ("", "_stayed", "_moved")


def main() -> None:
    for folder in sorted(path for path in Path(sys.argv[1]).iterdir() if (path / "outcomes.jsonl").exists()):
        sys.stdout.write(json.dumps(verify(folder), sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
