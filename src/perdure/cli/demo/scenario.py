"""The scenario of the demo: each step runs a few commands, and reads or counts the result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from perdure.cli.demo import fixtures
from perdure.cli.demo.environment import CommandRun, DemoEnvironment
from perdure.cli.text.plain import short
from perdure.cli.text.sentence import sentence
from perdure.domain.event import Event
from perdure.ids import decode

ELSEWHERE = "elsewhere/second.db"
EVERYTHING = ("--last", "100000")


class DemoStep(msgspec.Struct):
    """A tool call of the model, and its status; None if it has no result yet."""

    tool: str
    about: str
    status: str | None


class DemoState(msgspec.Struct):
    """The state of a session, as its store has it."""

    status: str
    cursor: int
    states: dict[str, list[str]]  # the states of the effects of each tool
    approvals: list[str]
    asked: dict[str, int]  # how often a person was asked about each tool
    steps: list[DemoStep]
    folder: str | None  # of a branch
    fork_at: int  # the last message before the model starts to edit
    log: list[str]  # what happened to effects that were not settled


class EffectCount(msgspec.Struct):
    """How often something that the agent was to do is there, counted outside."""

    what: str
    wanted: int
    at_service: int
    duplicated: int
    lost: int
    asked: int


class Scenario:
    """The commands, in order. Nothing is printed here."""

    def __init__(self, environment: DemoEnvironment, session: str) -> None:
        self.environment = environment
        self.session = session
        self.branch = f"{session}-2"

    def run_and_kill(self) -> tuple[CommandRun, DemoState]:
        fixtures.write_script(self.environment.folder, fixtures.SCRIPT)
        killed = self.environment.run_and_kill(
            "run", "fixer", f"prompt={fixtures.PROMPT}", "--repo", "shop", "--id", self.session
        )
        return killed, self.read_state(self.session)

    def plan(self) -> tuple[CommandRun, list[dict[str, Any]]]:
        ran = self.environment.run("resume", self.session, "--plan", "--json")
        return ran, [msgspec.json.decode(line) for line in ran.said]

    def resume(self, since: int) -> tuple[CommandRun, DemoState]:
        """Resume in a new process, until a person is asked."""
        ran = self.environment.run("resume", self.session, codes=(3,))
        return ran, self.read_state(self.session, since)

    def approve(self, approval: str) -> list[CommandRun]:
        approved = self.environment.run("approve", approval, "--because", fixtures.BECAUSE)
        return [approved, self.environment.run("resume", self.session)]

    def run_branch(self, at: int) -> tuple[list[CommandRun], DemoState, dict[str, str]]:
        """Branch before the edit, with another request and another script, in its own folder."""
        forked = self.environment.run("fork", self.session, "--at", str(at), "--id", self.branch)
        sent = self.environment.run("send", self.branch, fixtures.REQUEST, "--mode", "steer")
        fixtures.write_script(self.environment.folder, fixtures.ANOTHER)
        ran = self.environment.run("resume", self.branch)
        state = self.read_state(self.branch)
        folders = {"shop": self.environment.folder / "shop", "the branch": Path(state.folder or "")}
        last_lines = {name: last_line((path / "cart.py").read_text(encoding="utf-8")) for name, path in folders.items()}
        return [forked, sent, ran], state, last_lines

    def move(self) -> tuple[list[CommandRun], DemoState]:
        """Move it to another store, where it continues."""
        bundle, there = f"{self.session}.zip", ("--store", ELSEWHERE)
        fixtures.write_script(self.environment.folder, fixtures.SCRIPT)
        runs = [self.environment.run("export", self.session, "--move", "--to", bundle)]
        runs += [self.environment.run("import", bundle, *there)]
        runs += [self.environment.run("send", self.session, fixtures.THANKS, *there)]
        runs += [self.environment.run("resume", self.session, *there)]
        return runs, self.read_state(self.session, 0, *there)

    def count(self, asked: dict[str, int]) -> list[EffectCount]:
        """Count at the service, in the repository and at the remote; questions are counted from the session."""
        shop, remote = self.environment.folder / "shop", self.environment.folder / "remote.git"
        subjects = [fixtures.git(where, "log", "--format=%s", "main").splitlines() for where in (shop, remote)]
        found = {
            "post_comment": ("the comment", self.environment.comments()),
            "git_commit": ("the commit", subjects[0].count(fixtures.SUBJECT)),
            "git_push": ("the push", subjects[1].count(fixtures.SUBJECT)),
        }
        return [
            EffectCount(what, 1, there, max(0, there - 1), max(0, 1 - there), asked.get(tool, 0))
            for tool, (what, there) in found.items()
        ]

    def read_state(self, session: str, since: int = 0, *more: str) -> DemoState:
        """The state of a session, and the lines of its log about effects recovered after an event."""
        (shown,) = self.environment.read("show", session, *EVERYTHING, *more)
        return parse_state(shown, since)


def parse_state(shown: dict[str, Any], since: int) -> DemoState:
    """The state in the output of `perdure show --json`."""
    events = [msgspec.convert(one, Event) for one in shown["events"]]
    tools = {one["id"]: one["tool"] for one in shown["effects"]}
    states: dict[str, list[str]] = {}
    for one in shown["effects"]:
        states.setdefault(one["tool"], []).append(one["state"])
    opened = [one.body["rows"]["wait"][0] for one in events if one.kind == "wait.opened" and one.body]
    asked = Counter(tools[one["ref"]] for one in opened if one["kind"] in ("approval", "doubt") and one["ref"] in tools)
    later = [one for one in events if one.kind.startswith("effect.") and one.number > since > 0]
    recovered = {one.effect_id for one in later if one.kind == "effect.recovered"}
    return DemoState(
        status=shown["session"]["status"],
        cursor=shown["session"]["cursor"],
        states=states,
        approvals=[one["id"] for one in shown["waits"] if one["kind"] == "approval"],
        asked=dict(asked),
        steps=steps(events),
        folder=next((decode(one["result"]) for one in shown["effects"] if one["tool"] == "open_worktree"), None),
        fork_at=_before_the_edit(events),
        log=[re.sub(r" e-[0-9a-f]{16}", "", sentence(one, tools)) for one in later if one.effect_id in recovered],
    )


def steps(events: list[Event]) -> list[DemoStep]:
    """The calls of the model, from the transcript."""
    lines = [one for one in events if one.kind == "message" and isinstance(one.body, dict)]
    results = {(*one.body["of"], one.body["index"]): one.body for one in lines if one.body.get("role") == "tool"}
    made: list[DemoStep] = []
    for line in lines:
        for index, call in enumerate(line.body.get("calls") or ()):
            answer = results.get((line.session_uid, line.number, index), {})
            about = ABOUT[call["name"]](call["arguments"], answer.get("content", ""))
            made.append(DemoStep(call["name"], short(about), answer.get("status")))
    return made


def _before_the_edit(events: list[Event]) -> int:
    last = 0
    for one in events:
        if one.kind == "message" and one.body:
            if any(call["name"] == "edit_file" for call in one.body.get("calls") or ()):
                break
            last = one.number
    return last


def last_line(text: str) -> str:
    return text.strip().split("\n")[-1].strip()


ABOUT: dict[str, Callable[[dict[str, Any], str], str]] = {
    "plan": lambda given, _: ", ".join(f"{one['title']} ({one['state']})" for one in given["tasks"]),
    "decide": lambda given, _: f"{given['decision']}, because {given['because']}",
    "decided": lambda given, _: given["outcome"],
    "read_file": lambda given, _: given["path"],
    "edit_file": lambda given, _: f"{last_line(given['old'])} becomes {last_line(given['new'])}",
    "run_command": lambda given, said: f"{given['command']}: {said.split(chr(10))[0] or 'no answer yet'}",
    "git_commit": lambda given, _: given["message"],
    "git_push": lambda _, said: said or "no answer yet",
    "post_comment": lambda given, _: f"on {given['pr']}: {given['body']}",
}
