"""The verifier of the crash workload: `python -I -S crash.py FOLDER` prints one JSON line for each trial.

It uses the standard library alone. It reads `trial.json` (what was to happen), `sink.jsonl` (what the sink stored and
removed, in order) and `processes.jsonl` (how each process ended, what it asked, and what was on disk after it).

    happened    effects that are at the sink in the end
    doubled     how many times too often effects are there
    lost        effects that are missing although the session has ended as done
    asked       questions to the person
    needless    of these, about an effect that the sink could have settled, or that was not begun or was known
    blind       requests that repeat an effect without evidence: no look, undo, refusal, answer or accepted key before
    stuck       1 if the session did not end, and was not left with a question that the system takes no answer to

Then the durable states: trials of one system that were killed with equal durable states form a class. If the sink shows
different worlds for one class, the next process cannot tell them apart. A class is `flagged` if its state says that the
outcome is unknown, `known` if it says what is true in every world of the class, and `silent` otherwise: then a process
that believes the state is wrong in at least one world.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

TARGET = 2
Line = dict[str, Any]
Lines = list[Line]


def lines(path: Path) -> Lines:
    """The JSON lines of a file, or none."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def number(line: Line) -> Any:
    """The effect that a line of the sink is about, if it names one."""
    body = line.get("body")
    return body.get("n") if isinstance(body, dict) else None


def lasting(log: Lines) -> dict[Any, int]:
    """How often each effect is at the sink at the end of this log."""
    names = {line["id"]: number(line) for line in log if line["what"] in ("posted", "kept")}
    there: dict[Any, int] = defaultdict(int)
    for line in log:
        if line["what"] == "kept":
            there[number(line)] += 1
        elif line["what"] == "deleted":
            for identity in line["ids"]:
                there[names[identity]] -= 1
    return there


def about(line: Line, log: Lines) -> set[Any]:
    """The effects that a look or an undo was about: by key, by id, or all of them."""
    key = line.get("query", {}).get("key")
    posted = [one for one in log if one["what"] == "posted"]
    if key is not None:
        return {number(one) for one in posted if key in (one.get("marker"), one.get("key"))}
    identity = line.get("path", "").rpartition("/")[2]
    return {number(one) for one in posted if one["id"] == identity} or {number(one) for one in posted}


def blind_repeats(log: Lines, wanted: range) -> int:
    """Requests beyond one for each effect, less those before which there was evidence."""
    requests: dict[Any, int] = defaultdict(int)
    evidence: dict[Any, int] = defaultdict(int)
    keys: dict[Any, set[Any]] = defaultdict(set)
    blind = 0
    for place, line in enumerate(log):
        what = line["what"]
        if what == "posted" and number(line) in wanted:
            n = number(line)
            if line["key"] is None or line["key"] not in keys[n]:
                requests[n] += 1
                if requests[n] > 1 + evidence[n]:
                    blind += 1
                    evidence[n] += 1
            keys[n].add(line["key"])
        elif what == "looked":
            there = lasting(log[:place])
            for n in about(line, log):
                evidence[n] = max(evidence[n], requests[n]) if not there[n] else evidence[n]
        elif what == "deleted":
            for n in about(line, log):
                evidence[n] = max(evidence[n], requests[n])
        elif what == "refused":
            for n in {number(one) for one in log if one["what"] == "posted" and one["id"] == line["id"]}:
                evidence[n] += 1
        elif what == "noted" and line["note"].get("verdict") == "absent":
            evidence[line["note"]["n"]] = max(evidence[line["note"]["n"]], requests[line["note"]["n"]])
    return blind


def needless_questions(processes: Lines, log: Lines, ability: str) -> int:
    """Questions that the system could have answered itself."""
    found, start = 0, 0
    before: Line = {}
    for process in processes:
        for n in process["asked"]:
            sent = any(line["what"] == "posted" and number(line) == n for line in log[start : process["log"]])
            known = before.get(str(n)) in ("absent", "acknowledged") and not sent
            found += ability != "nothing" or known
        before, start = process["said"] or before, process["log"]
    return found


def outside_of(ability: str, log: Lines, rows: dict[str, int]) -> dict[Any, int]:
    """How often each effect happened: at the sink; a look counts once; a joint effect is a row beside its record."""
    if ability == "joint":
        return defaultdict(int, {int(n): number for n, number in rows.items()})
    if ability == "pure":
        looks = [line["query"].get("key", "") for line in log if line["what"] == "looked"]
        return defaultdict(int, {n: int(f"pure-{n}" in looks) for n in range(1, 4)})
    return lasting(log)


def world(log: Lines, processes: Lines) -> str:
    """What the sink shows of the target when the first process has ended: absent, present, or still in flight."""
    seen = log[: processes[0]["log"]]
    if lasting(seen)[TARGET] > 0:
        return "present"
    later = log[processes[0]["log"] :]
    landed = next((line["what"] for line in later if number(line) == TARGET and line["what"] in ("posted", "kept")), "")
    return "in flight" if landed == "kept" else "absent"


def void_reason(parameters: Line, processes: Lines, log: Lines) -> str:
    """Why a trial shows nothing."""
    for place, name in ((0, "kill"), (1, "again")):
        kill = parameters.get(name, "none")
        if kill == "none" or kill.startswith("server:"):
            continue
        if len(processes) <= place or processes[place]["ended"] != "killed":
            return f"the process did not meet {kill}"
    fault = parameters.get("fault", "none")
    if fault != "none" and not any(line["what"] == "posted" and line["fault"] == fault for line in log):
        return f"the sink did not meet {fault}"
    return ""


def judge(home: Path) -> tuple[Line, Line]:
    """The line of one trial."""
    trial = json.loads((home / "trial.json").read_text(encoding="utf-8"))
    parameters = trial["parameters"]
    log, processes = lines(home / "sink.jsonl"), lines(home / "processes.jsonl")
    ability = parameters["ability"]
    there, wanted = outside_of(ability, log, processes[-1].get("rows", {})), range(1, 4)
    done = processes[-1]["ended"] == "done"
    left = processes[-1]["ended"] == "asked" and not any(one["verdicts"] for one in processes)
    verdicts = {
        "wanted": len(wanted),
        "happened": sum(there[n] > 0 for n in wanted),
        "doubled": sum(max(0, there[n] - 1) for n in wanted),
        "lost": sum(there[n] < 1 for n in wanted) if done else 0,
        "asked": sum(len(process["asked"]) for process in processes),
        "needless": needless_questions(processes, log, ability),
        "blind": blind_repeats(log, wanted),
        "stuck": int(not done and not left),
        "processes": len(processes),
    }
    first = processes[0]
    findings: Line = {}
    if first["ended"] != "done":
        said = first["said"].get(str(TARGET), "absent")
        known = world(log, processes)
        if ability == "joint":
            known = "present" if first.get("rows", {}).get(str(TARGET)) else "absent"
        findings = {"state": first["state"], "said": said, "world": known}
        if trial["system"].split("/")[2] == "agent":
            findings["checkpoint"] = "yes" if first.get("checkpoint") else "no"
    if ability == "pure":  # a look changes nothing, so that no state can hide it
        findings = {}
    return {
        "trial": trial["trial"], "verdicts": verdicts, "findings": findings,
        "void": void_reason(parameters, processes, log),
    }, trial  # fmt: skip


def classify(judged: list[tuple[Line, Line]]) -> None:
    """Mark each trial with the class of its durable state: known, flagged or silent."""
    classes: dict[tuple[str, str, str], Lines] = defaultdict(list)
    for line, trial in judged:
        if line["findings"] and not line["void"] and not trial["parameters"].get("kill", "").startswith("server:"):
            key = (trial["system"], trial["parameters"]["ability"], line["findings"]["state"])
            classes[key].append(line["findings"])
    for members in classes.values():
        worlds, said = {one["world"] for one in members}, {one["said"] for one in members}
        true = said == {"absent"} == worlds or (said == {"acknowledged"} and worlds == {"present"})
        for one in members:
            one["worlds"] = ", ".join(sorted(worlds))
            one["class"] = "flagged" if said == {"unknown"} else "known" if true else "silent"


def main() -> None:
    folder = Path(sys.argv[1])
    homes = sorted(home for home in folder.iterdir() if (home / "trial.json").exists())
    judged = [judge(home) for home in homes if (home / "processes.jsonl").exists()]
    classify(judged)
    for line, _ in judged:
        print(json.dumps(line))


if __name__ == "__main__":
    main()
