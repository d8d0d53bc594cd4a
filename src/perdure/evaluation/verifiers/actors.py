"""The verdict on the actors: could one log per session, written to one entry at a time, have given these histories?

Runs alone, with the standard library only: `python -I -S actors.py FOLDER` prints one JSON line for each trial.

A list-append check. Each session is a list; an append adds a value that occurs once in the trial; the number of the
entry is its witness. Each actor recorded when it called and when it got its answer, on one clock of the machine.
Consistent means:

    no append that was confirmed is missing, or is there twice, or has another number than its actor was told
    no append that was refused is there
    an append that was confirmed before another was called has the lower number
    each read saw the beginning of the final list: as much as it says, and all that was confirmed before it was called

Because the final list gives the order, no search is needed: each rule is one pass. Beside the lists, each message that
was confirmed must have been taken once and acted on once, and an act must belong to a message that was confirmed.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

Operation = dict[str, Any]
NAMES = ("lost", "doubled", "misplaced", "reordered", "stale", "torn", "not_refused")


def check(operations: Iterable[Operation], final: dict[str, list[str]]) -> dict[str, list[str]]:
    """The problems of a history, by kind. `final` has the values of each session in the order of their numbers."""
    problems: dict[str, list[str]] = {name: [] for name in NAMES}
    by_session: dict[str, list[Operation]] = defaultdict(list)
    for one in operations:
        by_session[one["session"]].append(one)
    for session, mine in sorted(by_session.items()):
        for kind, text in _check_session(mine, final.get(session, [])):
            problems[kind].append(f"{session}: {text}")
    return problems


def _check_session(operations: list[Operation], values: list[str]) -> Iterator[tuple[str, str]]:
    places: dict[str, list[int]] = defaultdict(list)
    for number, value in enumerate(values, 1):
        places[value].append(number)
    appends = [one for one in operations if one["op"] == "append"]
    confirmed = [one for one in appends if one["outcome"] == "ok"]
    for one in appends:
        found = places.get(one["value"], [])
        if one["outcome"] == "ok" and not found:
            yield "lost", one["value"]
        if one["outcome"] == "refused" and found:
            yield "not_refused", one["value"]
        if len(found) > 1:
            yield "doubled", f"{one['value']} at {found}"
        if one["outcome"] == "ok" and found and one.get("number") not in (None, found[0]):
            yield "misplaced", f"{one['value']} at {found[0]}, not {one['number']}"
    placed = [(one, places[one["value"]][0]) for one in confirmed if one["value"] in places]
    yield from _order(placed)
    yield from _reads([one for one in operations if one["op"] == "read"], placed, values)


def _order(placed: list[tuple[Operation, int]]) -> Iterator[tuple[str, str]]:
    """What was confirmed before another append was called must have the lower number."""
    answered = sorted(placed, key=lambda pair: pair[0]["returned"])
    highest, at, name = 0, 0, ""
    for one, number in sorted(placed, key=lambda pair: pair[0]["called"]):
        while at < len(answered) and answered[at][0]["returned"] < one["called"]:
            if answered[at][1] > highest:
                highest, name = answered[at][1], answered[at][0]["value"]
            at += 1
        if number < highest:
            yield "reordered", f"{one['value']} at {number} was called after {name} at {highest} was confirmed"


def _reads(reads: list[Operation], placed: list[tuple[Operation, int]], values: list[str]) -> Iterator[tuple[str, str]]:
    prefixes = running_digests(values)
    answered = sorted(placed, key=lambda pair: pair[0]["returned"])
    highest, at = 0, 0
    for one in sorted(reads, key=lambda read: int(read["called"])):
        while at < len(answered) and answered[at][0]["returned"] < one["called"]:
            highest = max(highest, answered[at][1])
            at += 1
        seen = int(one["number"])
        if seen < highest:
            yield "stale", f"a read of {seen} entries, called after {highest} was confirmed"
        if seen >= len(prefixes) or prefixes[seen] != one["digest"]:
            yield "torn", f"a read of {seen} entries is not the beginning of the list"


def running_digests(values: Iterable[str]) -> list[str]:
    """The digest of each beginning of a list, from the empty one."""
    found, digest = [sha256().hexdigest()], sha256()
    for number, value in enumerate(values, 1):
        digest.update(f"{number}:{value}\n".encode())
        found.append(digest.copy().hexdigest())
    return found


def check_messages(
    operations: Iterable[Operation], taken: Iterable[str], acts: Iterable[str], cancelled: Iterable[str]
) -> dict[str, list[str]]:
    """Messages that were confirmed, taken and acted on. In a session that was cancelled, some are never acted on."""
    sent = {one["value"]: one["session"] for one in operations if one["op"] == "append" and one.get("message")}
    confirmed = {
        one["value"] for one in operations if one["op"] == "append" and one.get("message") and one["outcome"] == "ok"
    }
    stopped, took, acted = set(cancelled), Counter(taken), Counter(acts)
    owed = {value for value in confirmed if sent[value] not in stopped}
    return {
        "messages_lost": sorted(owed - set(took)),
        "messages_doubled": sorted(value for value, times in took.items() if times > 1),
        "acts_lost": sorted(owed - set(acted)),
        "acts_doubled": sorted(value for value, times in acted.items() if times > 1),
        "acts_invented": sorted(set(acted) - set(sent)),
    }


def lines(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in sorted(paths):
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)


def verify(folder: Path) -> dict[str, Any]:
    """The verdict on one trial, from its raw files."""
    operations = list(lines(folder.glob("history-*.jsonl")))
    final: dict[str, list[str]] = {}
    for line in lines([folder / "final.jsonl"]):
        final[line["session"]] = line["values"]
    [state] = lines([folder / "state.jsonl"])
    acts = [line["message"] for line in lines(folder.glob("acts-*.jsonl"))]
    problems = check(operations, final) | check_messages(operations, state["taken"], acts, state["cancelled"])
    counts = {name: len(found) for name, found in problems.items()}
    verdicts = counts | {
        "appends": sum(one["op"] == "append" and one["outcome"] == "ok" for one in operations),
        "reads": sum(one["op"] == "read" for one in operations),
        "refused": sum(one.get("outcome") == "refused" for one in operations),
        "unknown": sum(one.get("outcome") == "unknown" for one in operations),
        "lost_updates": counts["lost"] + counts["messages_lost"] + counts["acts_lost"],
        "inconsistent": int(any(counts.values())),
        "unfinished": len(state["unfinished"]),
    }
    findings = {name: "; ".join(found[:3]) for name, found in problems.items() if found}
    return {"trial": folder.name, "verdicts": verdicts, "findings": findings}


def main() -> None:
    for folder in sorted(path for path in Path(sys.argv[1]).iterdir() if (path / "state.jsonl").exists()):
        sys.stdout.write(json.dumps(verify(folder), sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
