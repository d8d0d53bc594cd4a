"""The verdict on answers: does each agree with the truth that the generator of the history kept?

Runs alone, with the standard library only: `python -I -S audit.py FOLDER` prints one JSON line for each trial.

Each trial left, for each length of the history, `truth-N.json` (for each question the facts about the time that was
asked about) and `answers-N.jsonl` (the facts that the system answered with, or null where it has nothing to answer
with). The truth about costs and retries is kept by session, and is summed here.

    right         the facts are those of the truth, each once
    wrong         a fact is missing, invented or repeated
    not_answered  the system has nothing to answer with
"""

import json
import sys
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

TARGET = "path:deploy/"
DAY = 86_400 * 1_000_000
EPOCH = date(1970, 1, 1).toordinal()


def day(value: Any) -> int:
    """A day as microseconds since 1970: a system may name it `2026-01-31`."""
    return value if isinstance(value, int) else (date.fromisoformat(value).toordinal() - EPOCH) * DAY


def expected(question: str, truth: list[list[Any]]) -> Counter[tuple[Any, ...]]:
    """The facts that answer a question."""
    if question == "targets":
        return Counter(tuple(fact) for fact in truth if fact[2].startswith(TARGET))
    if question == "refused":
        return Counter((session, effect) for session, effect, _ in truth)
    if question == "retries":
        places = Counter(place for place, _ in truth)
        return Counter((place, count) for place, count in places.items())
    if question == "costs":
        sums: Counter[tuple[Any, ...]] = Counter()
        for _, owner, _, at, cost in truth:
            sums[at, owner] += cost
        return Counter((*key, cost) for key, cost in sums.items())
    return Counter(tuple(fact) for fact in truth)


def answered(question: str, facts: list[list[Any]]) -> Counter[tuple[Any, ...]]:
    """What a system said, in the same form."""
    if question != "costs":
        return Counter(tuple(fact) for fact in facts)
    sums: Counter[tuple[Any, ...]] = Counter()
    for at, owner, cost in facts:
        sums[day(at), owner] += cost
    return Counter((*key, cost) for key, cost in sums.items())


def judge(truth: dict[str, Any], lines: list[dict[str, Any]]) -> tuple[Counter[str], dict[str, str], str]:
    """The verdicts on the answers at one length, what is wrong with them, and why they show nothing."""
    said = {line["question"]: line["facts"] for line in lines}
    verdicts = Counter({"questions": len(truth)})
    findings: dict[str, str] = {}
    for question, facts in truth.items():
        wanted = expected(question, facts)
        if not wanted:
            return verdicts, findings, f"the truth about {question} is empty"
        verdicts["facts"] += sum(wanted.values())
        if said.get(question) is None:
            verdicts["not_answered"] += 1
            continue
        found = answered(question, said[question])
        verdicts["right" if found == wanted else "wrong"] += 1
        if found != wanted:
            missing, invented = list((wanted - found).elements()), list((found - wanted).elements())
            findings[question] = f"missing {missing[:2]}, invented {invented[:2]}"[:300]
    return verdicts, findings, "" if lines else "nothing was answered"


def verify(folder: Path) -> dict[str, Any]:
    """The verdict on one trial, from its raw files."""
    sums = Counter(dict.fromkeys(("questions", "right", "wrong", "not_answered", "facts"), 0))
    findings: dict[str, str] = {}
    void = ""
    for path in sorted(folder.glob("answers-*.jsonl")):
        events = path.stem.partition("-")[2]
        truth = json.loads((folder / f"truth-{events}.json").read_text(encoding="utf-8"))["truth"]
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        verdicts, wrong, empty = judge(truth, lines)
        sums.update(verdicts)
        findings |= {f"{question} at {events}": text for question, text in wrong.items()}
        void = void or empty
    return {"trial": folder.name, "verdicts": dict(sums), "findings": findings, "void": void}


def main() -> None:
    for folder in sorted(path for path in Path(sys.argv[1]).iterdir() if any(path.glob("answers-*.jsonl"))):
        sys.stdout.write(json.dumps(verify(folder), sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
