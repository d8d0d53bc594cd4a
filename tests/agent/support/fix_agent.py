"""The agent of the kill sweep: a real repository, a real remote, real commands, a real service outside.

Each trial has a repository of its own, copied from a template, and is judged by what it leaves: the tree, the commits,
the remote, what the service stores, and the transcript.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from perdure import Agent, Call, Outcome, tool
from perdure.runtime.definitions.program import Bound
from perdure.runtime.definitions.tool import TOOLS as TOOLS_HERE
from perdure.runtime.queries import SessionView
from perdure.runtime.runtime import Runtime
from perdure.testing import ScriptedModel, SinkClient, SinkRefused
from perdure.testing.sweep.trial import Person, run_to_end
from tests.agent.support.agent_sweep import TEMPLATE, repository
from tests.agent.support.conversation import calls

BROKEN = "def add(a, b):\n    return a - b\n"


@tool(replay="probe", inflight="20ms", retry=5, safe_errors=(SinkRefused,))
def review_comment(call: Call, text: str) -> dict[str, str]:
    """Comment on the pull request."""
    return {"id": str(SinkClient.here().post(None, {"comment": text}, marker=call.key)["id"])}


@review_comment.probe
def _(call: Call, text: str) -> Outcome:
    found = SinkClient.here().find(key=call.key)
    return Outcome.happened({"id": str(found[0]["id"])}) if found else Outcome.absent()


SCRIPT: list[Any] = [
    calls(
        ("plan", {"tasks": [{"title": "fix add", "state": "active"}, {"title": "tell"}]}),
        ("read_file", {"path": "add.py"}),
        text="I look first.",
    ),
    calls(("decide", {"decision": "add, not subtract", "because": "the name says so"})),
    calls(
        ("edit_file", {"path": "add.py", "old": "a - b", "new": "a + b"}),
        ("write_file", {"path": "NOTES.md", "content": "Fixed add.\n"}),
        ("run_command", {"command": "python3 check.py; echo checked >> checks.log"}),
    ),
    calls(("git_commit", {"message": "Fix add", "paths": ["add.py", "NOTES.md"]}), ("git_push", {})),
    calls(("review_comment", {"text": "Fixed."}), ("remember", {"key": "fixed", "value": "add"})),
    calls(("plan", {"tasks": [{"title": "fix add", "state": "done"}, {"title": "tell", "state": "done"}]})),
    "Fixed, pushed and told.",
]
TOOLS = ("plan", "read_file", "decide", "edit_file", "write_file", "run_command", "git_commit", "git_push", "remember")
TOOLS_HERE["git_push"].inflight = 20_000  # the remote is on this disk: no push is in flight for long
fixer = Agent("fixer", model=ScriptedModel(SCRIPT), tools=[*TOOLS, review_comment], policy=None, unsandboxed=True)


def make_template(folder: Path) -> None:
    """A repository with a fault, and the remote it came from."""
    work, remote = folder / TEMPLATE / "work", folder / TEMPLATE / "remote.git"
    work.mkdir(parents=True)
    (work / "add.py").write_text(BROKEN)
    (work / "check.py").write_text("import add\nprint(add.add(2, 2))\n")
    (work / ".gitignore").write_text("checks.log\n__pycache__/\n")
    (work / "checks.log").touch()  # where Landlock is the sandbox, a command beside .git may not add files
    for where, *words in (
        (work, "init", "-q", "-b", "main"), (work, "config", "user.name", "Ada"),
        (work, "config", "user.email", "ada@example.org"), (work, "add", "-A"), (work, "commit", "-q", "-m", "Begin"),
        (folder, "init", "-q", "--bare", "-b", "main", str(remote)), (work, "remote", "add", "origin", "../remote.git"),
        (work, "push", "-q", "-u", "origin", "main"),
    ):  # fmt: skip
        subprocess.run(["git", *words], cwd=where, check=True, capture_output=True)


async def run_agent(runtime: Runtime, bound: Bound[Any], name: str, person: Person) -> list[SessionView]:
    """Start or continue the agent, run it to its end, and return what it left instead of its answer."""
    folder = repository()
    session = await runtime.start(bound, id=name, repository=folder)
    view = await run_to_end(runtime, session.id, person)
    messages = [event.body async for event in runtime.events(view.id) if event.kind == "message"]
    return [msgspec.structs.replace(view, result={"answer": view.result, "meaning": meaning(messages)} | left(folder))]


def left(folder: Path) -> dict[str, Any]:
    """What is in the folder, in its history, and in the remote."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    return {
        "files": {path: (folder / path).read_text() for path in ("add.py", "NOTES.md", "checks.log")},
        "dirty": git("status", "--porcelain"),
        "subjects": git("log", "--format=%s").splitlines(),
        "tree": git("rev-parse", "HEAD^{tree}"),
        "pushed": git("rev-parse", "HEAD") == git("ls-remote", "origin", "refs/heads/main").split()[0],
        "commits at the remote": git("--git-dir=../remote.git", "rev-list", "--count", "main"),
    }


def meaning(messages: list[dict[str, Any]]) -> list[list[str]]:
    """The messages, without what differs from run to run: names of commits and effects, and notes on crashes."""
    kept = [one for one in messages if one["role"] != "note"]
    return [
        [one["role"], str(one.get("status") or ""), re.sub(r"\b[0-9a-f]{7,64}\b", "#", str(one.get("content")))]
        for one in kept
    ]
