"""The demo's story, act by act: each is a few commands, and what they left is read from the record or counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from perdure.cli.demo import fixtures as props
from perdure.cli.demo.environment import CommandRun, DemoEnvironment
from perdure.cli.text.plain import short
from perdure.cli.text.sentence import sentence
from perdure.domain.event import Event
from perdure.ids import decode

ELSEWHERE = "elsewhere/second.db"
EVERYTHING = ("--last", "100000")


class DemoStep(msgspec.Struct):
    """One call that the model made, and what it was told of it; no status: it was not told yet."""

    tool: str
    about: str
    status: str | None


class DemoState(msgspec.Struct):
    """What the store says about a session at one moment."""

    status: str
    cursor: int
    states: dict[str, list[str]]  # the states of the effects of each tool
    approvals: list[str]
    asked: dict[str, int]  # how often a person was asked about each tool
    steps: list[DemoStep]
    folder: str | None  # of a branch
    fork_at: int  # the last line before the model began to edit
    log: list[str]  # what happened to effects that were unsettled


class EffectCount(msgspec.Struct):
    """What came of one thing that the agent was to do, counted where it is."""

    what: str
    wanted: int
    at_service: int
    duplicated: int
    lost: int
    asked: int


class Scenario:
    """The commands in their order. Nothing is told here."""

    def __init__(self, scene: DemoEnvironment, session: str) -> None:
        self.scene = scene
        self.session = session
        self.branch = f"{session}-2"

    def work_and_be_killed(self) -> tuple[CommandRun, DemoState]:
        props.write_script(self.scene.folder, props.SCRIPT)
        killed = self.scene.type_and_kill(
            "run", "fixer", f"prompt={props.PROMPT}", "--repo", "shop", "--id", self.session
        )
        return killed, self.look(self.session)

    def plan(self) -> tuple[CommandRun, list[dict[str, Any]]]:
        looked = self.scene.type("resume", self.session, "--plan", "--json")
        return looked, [msgspec.json.decode(line) for line in looked.said]

    def go_on(self, since: int) -> tuple[CommandRun, DemoState]:
        """In a new process, to where a person is asked."""
        lived = self.scene.type("resume", self.session, codes=(3,))
        return lived, self.look(self.session, since)

    def say_yes(self, approval: str) -> list[CommandRun]:
        approved = self.scene.type("approve", approval, "--because", props.BECAUSE)
        return [approved, self.scene.type("resume", self.session)]

    def try_another(self, at: int) -> tuple[list[CommandRun], DemoState, dict[str, str]]:
        """A branch from before the edit, in a folder of its own, with a wish of the person and a script of its own."""
        forked = self.scene.type("fork", self.session, "--at", str(at), "--id", self.branch)
        sent = self.scene.type("send", self.branch, props.WISH, "--mode", "steer")
        props.write_script(self.scene.folder, props.ANOTHER)
        ran = self.scene.type("resume", self.branch)
        known = self.look(self.branch)
        folders = {"shop": self.scene.folder / "shop", "the branch": Path(known.folder or "")}
        tails = {name: last_line((path / "cart.py").read_text(encoding="utf-8")) for name, path in folders.items()}
        return [forked, sent, ran], known, tails

    def move(self) -> tuple[list[CommandRun], DemoState]:
        """To another store, where it goes on."""
        bundle, there = f"{self.session}.zip", ("--store", ELSEWHERE)
        props.write_script(self.scene.folder, props.SCRIPT)
        lives = [self.scene.type("export", self.session, "--move", "--to", bundle)]
        lives += [self.scene.type("import", bundle, *there)]
        lives += [self.scene.type("send", self.session, props.THANKS, *there)]
        lives += [self.scene.type("resume", self.session, *there)]
        return lives, self.look(self.session, 0, *there)

    def count(self, asked: dict[str, int]) -> list[EffectCount]:
        """At the service, in the repository and at the remote; who was asked, from the session."""
        shop, remote = self.scene.folder / "shop", self.scene.folder / "remote.git"
        subjects = [props.git(where, "log", "--format=%s", "main").splitlines() for where in (shop, remote)]
        found = {
            "post_comment": ("the comment", self.scene.comments()),
            "git_commit": ("the commit", subjects[0].count(props.SUBJECT)),
            "git_push": ("the push", subjects[1].count(props.SUBJECT)),
        }
        return [
            EffectCount(what, 1, there, max(0, there - 1), max(0, 1 - there), asked.get(tool, 0))
            for tool, (what, there) in found.items()
        ]

    def look(self, session: str, since: int = 0, *more: str) -> DemoState:
        """What the record says, and of its log the lines about recovered effects after an event."""
        (shown,) = self.scene.read("show", session, *EVERYTHING, *more)
        return known(shown, since)


def known(shown: dict[str, Any], since: int) -> DemoState:
    """Make sense of `perdure show --json`."""
    events = [msgspec.convert(one, Event) for one in shown["events"]]
    tools = {one["id"]: one["tool"] for one in shown["effects"]}
    states: dict[str, list[str]] = {}
    for one in shown["effects"]:
        states.setdefault(one["tool"], []).append(one["state"])
    opened = [one.body["rows"]["wait"][0] for one in events if one.kind == "wait.opened" and one.body]
    asked = Counter(tools[one["ref"]] for one in opened if one["kind"] in ("approval", "doubt") and one["ref"] in tools)
    told = [one for one in events if one.kind.startswith("effect.") and one.number > since > 0]
    recovered = {one.effect_id for one in told if one.kind == "effect.recovered"}
    return DemoState(
        status=shown["session"]["status"],
        cursor=shown["session"]["cursor"],
        states=states,
        approvals=[one["id"] for one in shown["waits"] if one["kind"] == "approval"],
        asked=dict(asked),
        steps=steps(events),
        folder=next((decode(one["result"]) for one in shown["effects"] if one["tool"] == "open_worktree"), None),
        fork_at=_before_the_edit(events),
        log=[re.sub(r" e-[0-9a-f]{16}", "", sentence(one, tools)) for one in told if one.effect_id in recovered],
    )


def steps(events: list[Event]) -> list[DemoStep]:
    """What the model did, from the transcript."""
    lines = [one for one in events if one.kind == "message" and isinstance(one.body, dict)]
    told = {(*one.body["of"], one.body["index"]): one.body for one in lines if one.body.get("role") == "tool"}
    made: list[DemoStep] = []
    for line in lines:
        for index, call in enumerate(line.body.get("calls") or ()):
            answer = told.get((line.session_uid, line.number, index), {})
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
