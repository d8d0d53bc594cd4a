"""The judge of a crash sweep: what is outside after a trial, against what an undisturbed run leaves there."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import msgspec

from perdure.domain.effect import Replay
from perdure.testing.sink import lasting
from perdure.testing.sweep.fork_server import Ended

HEADS = ("duplicated", "lost", "needless", "blind", "stuck", "broken")
HEAD_OF = {"unapproved": "broken"}
Log = list[dict[str, Any]]


@dataclass(frozen=True)
class Undisturbed:
    """How the program goes when nobody disturbs it. `ends` is None where two such runs end differently."""

    moments: list[str]
    outside: Counter[str]
    waits: Counter[str]
    statuses: list[str]
    ends: list[Any] | None

    @classmethod
    def of(cls, first: tuple[Ended, Log], other: tuple[Ended, Log]) -> Undisturbed:
        (ended, log), (again, _) = first, other
        ends = ended.result["ends"][-1]
        return cls(
            moments=ended.result["moments"],
            outside=lasting(log),
            waits=Counter(ended.result["ledger"]["waits"]),
            statuses=[status for status, *_ in ends],
            ends=ends if ends == again.result["ends"][-1] else None,
        )


def judge(undisturbed: Undisturbed, log: Log, last: Ended, *, lonely: bool = True) -> dict[str, list[str]]:
    """What is wrong after a trial, by head. `lonely`: every earlier process of it was dead when the last one ran."""
    found: dict[str, list[str]] = {head: [] for head in HEADS}
    outside = lasting(log)
    found["duplicated"] += [
        f"{content} is there {n} times too often" for content, n in (outside - undisturbed.outside).items()
    ]
    found["lost"] += [f"{content} is missing {n} times" for content, n in (undisturbed.outside - outside).items()]
    found["blind"] += _blind(undisturbed, log)
    if last.error or last.hung or last.killed:
        found["stuck"].append(f"the last run ended with {last.error or 'nothing: it hung or died'}")
        return found
    _compare_ends(undisturbed, last, found)
    ledger = last.result["ledger"]
    for kind, sentence in ledger.get("problems", []):
        found[HEAD_OF.get(kind, kind)].append(sentence)
    for effect in ledger.get("effects", []):
        if lonely and effect["questions"] and effect["replay"] != Replay.ESCALATE:
            found["needless"].append(f"{effect['tool']} is {effect['replay']}, and a person was asked")
    return found


def _compare_ends(undisturbed: Undisturbed, last: Ended, found: dict[str, list[str]]) -> None:
    for ends in last.result["ends"]:
        if isinstance(ends, dict):
            found["stuck"].append(ends["message"])
            return
        if [status for status, *_ in ends] != undisturbed.statuses:
            found["stuck"].append(f"it ended as {ends}, and undisturbed as {undisturbed.statuses}")
            return
        if undisturbed.ends is not None and ends != undisturbed.ends:
            found["lost"].append(f"it ended with {ends}, and undisturbed with {undisturbed.ends}")
    if last.result["ends"][0] != last.result["ends"][-1]:
        found["lost"].append(f"two runs after each other ended with {last.result['ends']}")
    waits = Counter(last.result["ledger"]["waits"])
    for kind in ("approval", "input", "timer", "child"):
        if waits[kind] > undisturbed.waits[kind]:
            head = "needless" if kind in ("approval", "input") else "duplicated"
            found[head].append(f"{waits[kind]} waits for {kind}, and undisturbed {undisturbed.waits[kind]}")
        if waits[kind] < undisturbed.waits[kind]:
            found["lost"].append(f"{waits[kind]} waits for {kind}, and undisturbed {undisturbed.waits[kind]}")


def _blind(undisturbed: Undisturbed, log: Log) -> list[str]:
    """Posts beyond those intended, before which nobody had looked, taken anything back or given their word."""
    intended = {_content(line): 0 for line in log if line["what"] == "posted"} | dict(undisturbed.outside)
    posts: Counter[str] = Counter()
    keys: dict[str, set[str | None]] = defaultdict(set)
    evidence: Counter[str] = Counter()
    found = []
    for line in log:
        if line["what"] == "posted":
            content = _content(line)
            if line["key"] is None or line["key"] not in keys[content]:
                posts[content] += 1
            if posts[content] > max(1, intended[content]) + evidence[content]:
                found.append(f"{content} was posted {posts[content]} times, and nobody had looked in between")
            keys[content].add(line["key"])
        elif _tells(line):
            evidence.update(set(posts))
    return found


def _tells(line: dict[str, Any]) -> bool:
    """Whether somebody learned from it that something may be sent again, or said so."""
    match line["what"]:
        case "deleted" | "refused":
            return True
        case "looked":
            return not line["found"]
        case "noted":
            return "verdict" in line["note"]
    return False


def _content(line: dict[str, Any]) -> str:
    return f"{line['path']} {msgspec.json.encode(line['body'], order='sorted').decode()}"
