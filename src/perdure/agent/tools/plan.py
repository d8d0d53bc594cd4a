"""What an agent records for itself: its plan, decisions, facts and artifacts; and its questions and sub-agents.

The recording tools change the record and nothing outside, so each is `joint`: the change and the record of the call are
one transaction. A question and a sub-agent are not effects: one is a wait, the other a session of its own.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.agent.files.workspace import here
from perdure.agent.tools.result import ToolResult
from perdure.domain.artifact import Retention
from perdure.domain.fact import Fact, private_scope, repository_scope
from perdure.domain.task import Task, TaskState
from perdure.errors import NotDone
from perdure.ids import digest, encode
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.definitions.tool import tool
from perdure.runtime.record_edits import task_id
from perdure.store.move import Log
from perdure.store.moves import artifact, decision, fact, session, task


class Item(msgspec.Struct, frozen=True):
    """One task of a plan."""

    title: str
    state: Literal["open", "active", "blocked", "done", "dropped"] = "open"


@tool(replay="joint", reach="none")
def plan(log: Log, tasks: list[Item]) -> ToolResult:
    """Record the plan as a list of tasks with their state, or update it; returns the whole plan.

    A task is identified by its title. Tasks that you leave out stay as they are.
    """
    for nth, item in enumerate(tasks):
        id = task_id(item.title)
        task.add.on(log, id, item.title, priority=-nth)
        if task.get(log.tx, log.uid, id).state != item.state:
            task.change.on(log, id, state=item.state)
    return ToolResult(plan_text(task.of_session(log.tx, log.uid)))


def plan_text(tasks: list[Task]) -> str:
    """A plan as text for a model or a person."""
    marks = {TaskState.DONE: "x", TaskState.ACTIVE: ">", TaskState.BLOCKED: "!", TaskState.DROPPED: "-"}
    return "\n".join(f"[{marks.get(TaskState(one.state), ' ')}] {one.title}" for one in tasks) or "(no tasks)"


@tool(replay="joint", reach="none")
def decide(log: Log, decision: str, because: str, then: str | None = None) -> ToolResult:
    """Record a decision and its reason before acting on it; returns its id, for `decided`."""
    id = "d-" + digest(encode([decision, because]))[:12]
    _decisions.decide.on(log, id, decision, because=because, then=then)
    return ToolResult(id)


@tool(replay="joint", reach="none")
def decided(log: Log, id: str, outcome: str) -> ToolResult:
    """Record the outcome of a decision."""
    _decisions.settle.on(log, id, outcome)
    return ToolResult(f"The outcome of {id} is recorded.")


@tool(replay="joint", reach="none")
def remember(log: Log, key: str, value: str, everywhere: bool = False, stale_after: str | None = None) -> ToolResult:
    """Store a fact under a key, for this session or, with `everywhere`, for every session of this repository.

    `stale_after`, such as "7d", says when it must be checked again.
    """
    age = None if stale_after is None else microseconds(stale_after)
    stored = fact.remember.on(log, _scope(log, everywhere), key, value, stale_after=age)
    return ToolResult(f"Stored {key}, version {stored.version}.")


@tool(replay="joint", reach="none")
def recall(log: Log, key: str | None = None, everywhere: bool = False) -> ToolResult:
    """Return a fact by its key, or all known facts, each with its age."""
    scope = _scope(log, everywhere)
    found = fact.listing(log.tx, scope) if key is None else [fact.get(log.tx, scope, key)]
    return ToolResult("\n".join(_fact(one, log.tx.now) for one in found if one is not None) or "(nothing)")


def _fact(one: Fact, now: int) -> str:
    age = (now - one.verified_at) // 1_000_000
    stale = "; check it before you rely on it" if one.is_stale(now) else ""
    value = one.value if isinstance(one.value, str) else encode(one.value)
    return f"{one.key} = {value} ({age} s old{stale})"


def _scope(log: Log, everywhere: bool) -> str:
    where = session.get(log.tx, log.uid).repository if everywhere else None
    return private_scope(log.uid) if where is None else repository_scope(where)


@tool(replay="joint", reach="none")
def save_artifact(log: Log, name: str, content: str, digest: str, size: int) -> ToolResult:
    """Store a text, such as a report or a log, with the session; returns its digest."""
    artifact.index.on(
        log, digest, kind="text/plain", size=size, location=f"{digest[:2]}/{digest}", retention=Retention.SESSION
    )
    return ToolResult(f"{name} is stored as {digest}.", artifact=digest)


def prepare_artifact(arguments: dict[str, Any], _known: Any) -> dict[str, Any]:
    """Store the bytes first, then the claim on them."""
    content, folder = arguments.get("content"), here().artifacts
    if not isinstance(content, str):
        return arguments
    if folder is None:
        raise NotDone("This store has no artifact folder.")
    name, size = folder.put(content.encode())
    return arguments | {"digest": name, "size": size}


@tool(replay="pure", reach="none")
def ask_person(question: str, choices: list[str] | None = None) -> ToolResult:
    """Ask the person a question and wait, for as long as it takes, for the answer."""
    raise NotDone("Only an agent can ask a question; the tool cannot be called directly.")


@tool(replay="pure", reach="none")
def delegate(task: str) -> ToolResult:
    """Let a second agent with the same tools do a task, and return its answer."""
    raise NotDone("Only an agent can delegate a task; the tool cannot be called directly.")


_decisions = decision
