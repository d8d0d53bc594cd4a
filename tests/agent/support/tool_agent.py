"""An agent for the kill sweep of tools that only read or record: it also asks, delegates and compacts.

Each kill point is named after the tool that is under way, so that a sweep shows in which tool it killed. A trial is
judged by what it leaves: the transcript, one sub-agent, one question, one artifact, one summary, and how often the
model and the page were requested.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from perdure import Agent, faults
from perdure.agent import inference
from perdure.agent.files.workspace import Workspace
from perdure.agent.history import compaction
from perdure.agent.model import OnText, Reply, Request
from perdure.agent.models.scripted import Line
from perdure.agent.tool_calls import ToolCalls
from perdure.runtime.definitions.program import Bound
from perdure.runtime.queries import SessionView
from perdure.runtime.run.large_values import Values
from perdure.runtime.run.run import Run
from perdure.runtime.runtime import Runtime
from perdure.store.moves import artifact
from perdure.testing import ScriptedModel, SinkClient
from perdure.testing.sweep.trial import Person, run_to_end
from tests.agent.support import fix_agent
from tests.agent.support.agent_sweep import TEMPLATE, repository
from tests.agent.support.conversation import calls

TASK, PAGE = "count the files", "effects"
DECISION = {"decision": "leave it", "because": "it only looks"}
DECIDED = "d-82e09c894b8d"  # its name is a digest of the two
USED = {"tokens_in": 100, "tokens_out": 10, "cost_micros": 7}
SCRIPT: list[Any] = [
    calls(("list_files", {}), ("search_files", {"pattern": "def add"}), ("fetch_url", {"url": "{page}"})),
    calls(("git_status", {}), ("git_diff", {}), ("git_log", {}), ("read_file", {"path": "add.py"})),
    calls(("decide", DECISION), ("remember", {"key": "adds", "value": "a - b"})),
    calls(("recall", {"key": "adds"}), ("decided", {"id": DECIDED, "outcome": "left"})),
    calls(("save_artifact", {"name": "report", "content": "Nothing to do.\n"})),
    calls(("ask_person", {"question": "Continue?", "choices": ["yes", "no"]})),
    calls(("delegate", {"task": TASK})),
    "Looked, asked and told.",
]
PURE = ("list_files", "search_files", "fetch_url", "git_status", "git_diff", "git_log", "read_file")
RECORDED = ("decide", "remember", "recall", "decided", "save_artifact")
TOOLS = (*PURE, *RECORDED, "ask_person", "delegate")


class PaidModel(ScriptedModel):
    """A model that costs money: each request is noted at the sink. Without tools it summarizes."""

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        what = "summary" if not request.tools else "sub-agent" if _is_delegated(request) else str(request.number)
        SinkClient.here().note(asked=what)
        return await super().reply(request, on_text)


def _reply(request: Request) -> Line:
    if not request.tools:
        return {"text": "I looked around.", "usage": USED}
    if _is_delegated(request):
        return {"text": "Three files.", "usage": USED}
    turn = SCRIPT[request.number]
    turn = {"text": turn} if isinstance(turn, str) else turn
    page = f"{SinkClient.here().url}/{PAGE}"
    offered = [
        one | {"arguments": {"url": page} if one["name"] == "fetch_url" else one["arguments"]}
        for one in turn.get("calls", ())
    ]
    return {"text": turn["text"], "calls": offered, "usage": USED}


def _is_delegated(request: Request) -> bool:
    return request.turns[0].text == TASK


class LocalReader(Agent):
    """An agent that may fetch from this machine, where the page is."""

    def workspace(self, run: Run, root: Path, beside: Path | None) -> Workspace:
        made = super().workspace(run, root, beside)
        made.private_network = True
        return made


reader = LocalReader(
    "reader", model=PaidModel(_reply), tools=TOOLS, policy=None, context=400, parallel=1, network=True, snapshots=False
)


def make_template(folder: Path) -> None:
    """The repository of the other sweep, with a change that is not committed."""
    fix_agent.make_template(folder)
    (folder / TEMPLATE / "work" / "add.py").write_text(fix_agent.BROKEN + "\n\nadd(1, 1)\n")


@contextmanager
def named_moments() -> Iterator[None]:
    """Add the name of what is under way to every kill point. Inside a transaction nothing is durable, and the order of
    the next point and of its answer varies: such points are left out, and the rest are always in the same order.
    """
    under_way, count_runs = ["the loop"], faults._handler

    def reached(label: str) -> None:
        if count_runs is not None and not label.startswith(("move.", "answer.", "act.before")):
            count_runs(f"{label} of {under_way[-1]}")

    def named(real: Callable[..., Awaitable[Any]], name: Callable[..., str]) -> Any:
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            under_way.append(name(*args, **kwargs))
            try:
                return await real(*args, **kwargs)
            finally:
                under_way.pop()

        return wrapped

    before = ToolCalls._do, compaction.compact, inference.record
    ToolCalls._do = named(before[0], lambda _, call: call.name)  # type: ignore[method-assign]
    compaction.compact = named(before[1], lambda *_, **__: "compaction")
    inference.record = named(before[2], lambda *_: under_way[-1].replace("the loop", "the model"))
    faults.arm(reached)
    try:
        yield
    finally:
        ToolCalls._do, compaction.compact, inference.record = before  # type: ignore[method-assign]
        faults.disarm()
        if count_runs is not None:
            faults.arm(count_runs)


async def run_reader(runtime: Runtime, bound: Bound[Any], name: str, person: Person) -> list[SessionView]:
    """Start or continue the agent, run it to its end, and return what it left."""
    folder = repository()
    runtime.values = Values(runtime.store, folder.parent / "artifacts")
    with named_moments():
        session = await runtime.start(bound, id=name, repository=folder)
        view = await run_to_end(runtime, session.id, person)
    return [msgspec.structs.replace(view, result=await left(runtime, view, folder))]


async def left(runtime: Runtime, view: SessionView, folder: Path) -> dict[str, Any]:
    """What is on record and on the disk at the end.

    Summaries are compared separately: a note on a crash makes the window longer, so that it may be compacted earlier.
    """
    messages = [event.body async for event in runtime.events(view.id) if event.kind == "message"]
    family = [one async for one in runtime.sessions(repository=str(folder))]
    kept = await runtime.store.read(artifact.of_session, view.uid)
    on_disk = [path.name for path in (folder.parent / "artifacts").rglob("*") if path.is_file()]
    return {
        "answer": view.result,
        "meaning": meaning([line for line in messages if line["role"] != "summary"]),
        "spent": [view.tokens_in, view.tokens_out, view.cost_micros],
        "sub-agents": [[one.status, one.result] for one in family if one.parent_uid == view.uid],
        "artifacts": sorted(one.digest for one in kept),
        "files of artifacts": sorted(name for name in on_disk if len(name) == 64),  # a file under way has another name
        "decisions": [[one.decision, one.outcome] async for one in runtime.decisions(session=view.id)],
        "questions": sum(line["role"] == "tool" and "answers: yes" in str(line["content"]) for line in messages),
        "summaries": meaning([line for line in messages if line["role"] == "summary"]),
        "folder": sorted(os.listdir(folder)),
    }


def meaning(messages: list[dict[str, Any]]) -> list[list[str]]:
    """The messages, without what differs from run to run: names of effects and of the page, ages and ports."""
    changing = (r"\d+ s old", r"http://[\w.:/#-]+")
    return [
        [role, status, re.sub("|".join(changing), "#", content)]
        for role, status, content in fix_agent.meaning(messages)
    ]
