"""Every acknowledged effect of a shipped tool records a reference to what it did or read."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import perdure
from perdure import Agent
from perdure.agent.files.branch import merge_branch, open_worktree
from perdure.agent.inference import NAME as MODEL
from perdure.agent.tools.builtin_tools import SHIPPED
from perdure.agent.tools.command import run_read_only
from perdure.control.branches.merge import merge
from perdure.ids import digest, encode
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls
from tests.agent.support.tool_calls import make_repository, run_git

pytestmark = [pytest.mark.databases("sqlite"), pytest.mark.slow]

WAITS = {"ask_person", "delegate"}  # a wait and a session, and never an effect


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/page"
    server.shutdown()
    thread.join()
    server.server_close()


class Local(Agent):
    """An agent that may fetch from this machine."""

    def workspace(self, *args: Any) -> Any:
        made = super().workspace(*args)
        made.private_network = True
        return made


async def references(runtime: perdure.Runtime) -> dict[str, str | None]:
    return {one.tool: one.reference async for one in runtime.effects(state="acknowledged")}


async def test_every_shipped_tool_records_a_reference(conversation: Conversation, tmp_path: Path, address: str) -> None:
    repository = tmp_path / "place"
    make_repository(repository)
    decision = {"decision": "do it", "because": "asked"}
    name = "d-" + digest(encode(list(decision.values())))[:12]
    script = [
        calls(("list_files", {}), ("search_files", {"pattern": "one"}), ("read_file", {"path": "a.txt"})),
        calls(("git_status", {}), ("git_diff", {}), ("git_log", {}), ("fetch_url", {"url": address})),
        calls(("plan", {"tasks": [{"title": "it", "state": "open"}]}), ("decide", decision)),
        calls(("decided", {"id": name, "outcome": "done"}), ("remember", {"key": "k", "value": "v"})),
        calls(("recall", {"key": "k"}), ("save_artifact", {"name": "report", "content": "x"})),
        calls(("git_branch", {"name": "work"}), ("write_file", {"path": "b.txt", "content": "b\n"})),
        calls(("edit_file", {"path": "a.txt", "old": "one", "new": "uno"})),
        calls(("run_command", {"command": "true > c.txt"}), ("run_command", {"command": "ls"})),
        calls(("git_commit", {"message": "work"})),
        calls(("git_push", {})),
        "Done.",
        calls(("write_file", {"path": "d.txt", "content": "d\n"})),
        "Done on the branch.",
    ]
    tools = [one for one in SHIPPED if one not in WAITS]
    conversation.agent = Local(
        "local", model=conversation.declare(script).model, tools=tools, policy=None, unsandboxed=True, network=True
    )
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime, repository=repository)
        branch = await runtime.fork("talk")
        await runtime.send(branch.id, "another way")
        await runtime.run(branch.id)
        await merge(runtime, branch.id)
        found = await references(runtime)
        folder = (await anext(runtime.effects(tool=open_worktree.name))).result
    head = run_git(repository, "rev-parse", "work")
    assert set(found) == {*tools, run_read_only.name, open_worktree.name, merge_branch.name, MODEL}
    kept = {"plan", "decide", "decided", "remember", "recall", "save_artifact"}  # joint: nothing is outside
    assert {tool: reference for tool, reference in found.items() if tool not in kept} == {
        "list_files": ".", "search_files": ".", "read_file": "a.txt", "git_status": "command:git status",
        "git_diff": "command:git diff", "git_log": "command:git log", "fetch_url": address,
        "git_branch": "refs/heads/work", "write_file": "b.txt", "edit_file": "a.txt", "run_command": "exit 0",
        "run_command.look": "exit 0", "git_commit": head, "git_push": f"origin refs/heads/work {head}",
        MODEL: "scripted", "open_worktree": (folder or "").strip('"'), "merge_branch": str(repository),
    }  # fmt: skip
