"""What is expected after a trial: what an undisturbed run leaves outside, and a judge that compares."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import msgspec

from perdure.domain.effect import Replay
from perdure.testing.sink import lasting
from perdure.testing.sweep.fork_server import ProcessResult
from perdure.testing.sweep.report import HEADS

HEAD_OF = {"unapproved": "broken"}
SinkLog = list[dict[str, Any]]


@dataclass(frozen=True)
class Baseline:
    """What an undisturbed run does. `ends` is None where two such runs end differently."""

    moments: list[str]
    outside: Counter[str]
    waits: Counter[str]
    statuses: list[str]
    ends: list[Any] | None

    @classmethod
    def of(cls, first: tuple[ProcessResult, SinkLog], other: tuple[ProcessResult, SinkLog]) -> Baseline:
        (ended, log), (again, _) = first, other
        ends = ended.result["ends"][-1]
        return cls(
            moments=ended.result["moments"],
            outside=lasting(log),
            waits=Counter(ended.result["ledger"]["waits"]),
            statuses=[status for status, *_ in ends],
            ends=ends if ends == again.result["ends"][-1] else None,
        )


def judge(baseline: Baseline, log: SinkLog, last: ProcessResult, *, alone: bool = True) -> dict[str, list[str]]:
    """What is wrong after a trial, by head. `alone`: every earlier process was dead when the last one ran."""
    found: dict[str, list[str]] = {head: [] for head in HEADS}
    outside = lasting(log)
    found["duplicated"] += [
        f"{content} is there {n} times too often" for content, n in (outside - baseline.outside).items()
    ]
    found["lost"] += [f"{content} is missing {n} times" for content, n in (baseline.outside - outside).items()]
    found["blind"] += _repeated_blindly(baseline, log)
    if last.error or last.hung or last.killed:
        found["stuck"].append(f"the last run ended with {last.error or 'nothing: it hung or died'}")
        return found
    _compare_ends(baseline, last, found)
    ledger = last.result["ledger"]
    for kind, sentence in ledger.get("problems", []):
        found[HEAD_OF.get(kind, kind)].append(sentence)
    for effect in ledger.get("effects", []):
        if alone and effect["questions"] and effect["replay"] != Replay.ESCALATE:
            found["needless"].append(f"{effect['tool']} is {effect['replay']}, and a person was asked")
    return found


def _compare_ends(baseline: Baseline, last: ProcessResult, found: dict[str, list[str]]) -> None:
    for ends in last.result["ends"]:
        if isinstance(ends, dict):
            found["stuck"].append(ends["message"])
            return
        if [status for status, *_ in ends] != baseline.statuses:
            found["stuck"].append(f"it ended as {ends}, and undisturbed as {baseline.statuses}")
            return
        if baseline.ends is not None and ends != baseline.ends:
            found["lost"].append(f"it ended with {ends}, and undisturbed with {baseline.ends}")
    if last.result["ends"][0] != last.result["ends"][-1]:
        found["lost"].append(f"two runs after each other ended with {last.result['ends']}")
    waits = Counter(last.result["ledger"]["waits"])
    for kind in ("approval", "input", "timer", "child"):
        if waits[kind] > baseline.waits[kind]:
            head = "needless" if kind in ("approval", "input") else "duplicated"
            found[head].append(f"{waits[kind]} waits for {kind}, and undisturbed {baseline.waits[kind]}")
        if waits[kind] < baseline.waits[kind]:
            found["lost"].append(f"{waits[kind]} waits for {kind}, and undisturbed {baseline.waits[kind]}")


def _repeated_blindly(baseline: Baseline, log: SinkLog) -> list[str]:
    """Posts beyond those intended, without a check, an undo or a verdict of a person before them."""
    intended = {_content(line): 0 for line in log if line["what"] == "posted"} | dict(baseline.outside)
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
                found.append(f"{content} was posted {posts[content]} times without a check in between")
            keys[content].add(line["key"])
        elif _is_evidence(line):
            evidence.update(set(posts))
    return found


def _is_evidence(line: dict[str, Any]) -> bool:
    """Whether a line of the sink's log shows that something may be sent again."""
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
