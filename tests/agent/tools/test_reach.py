"""How far each tool reaches: what ships declares it, and everything else is `outside` unless it declares less."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Call, MCPServer, tool
from perdure.agent.files.branch import merge_branch, open_worktree
from perdure.agent.files.rewind.folder_rewind import rewind_files
from perdure.agent.tools import command, commit, edit, fetch, files, git, plan, push, search
from perdure.errors import ConfigError
from perdure.runtime.calls.approval_tool import APPROVE
from perdure.runtime.definitions.tool import Tool

REACH: dict[str, list[Tool[..., Any]]] = {
    "none": [
        plan.plan, plan.decide, plan.decided, plan.remember, plan.recall, plan.save_artifact, plan.ask_person,
        plan.delegate, APPROVE,
    ],
    "workspace": [
        files.read_file, files.list_files, search.search_files, edit.write_file, edit.edit_file, git.git_status,
        git.git_diff, git.git_log, git.git_branch, commit.git_commit, open_worktree, merge_branch, rewind_files,
    ],
    "machine": [command.run_command, command.run_read_only],
    "outside": [push.git_push, fetch.fetch_url],
}  # fmt: skip


def test_every_tool_that_ships_declares_its_reach() -> None:
    modules = (plan, files, search, edit, git, commit, push, fetch, command)
    shipped = {one.name for module in modules for one in vars(module).values() if isinstance(one, Tool)}
    declared = {one.name: reach for reach, tools in REACH.items() for one in tools}
    assert shipped <= declared.keys()
    assert {one.name: str(one.reach) for tools in REACH.values() for one in tools} == declared


def test_an_undeclared_tool_and_its_undo_are_outside() -> None:
    @tool
    def undeclared_reach(call: Call) -> None: ...

    @undeclared_reach.undo
    def _(call: Call, result: None) -> None: ...

    assert undeclared_reach.reach == "outside"
    assert undeclared_reach.undo_tool is not None
    assert undeclared_reach.undo_tool.reach == "outside"


def test_an_undo_reaches_as_far_as_its_tool() -> None:
    @tool(replay="compensate", reach="workspace")
    def near_reach(call: Call) -> None: ...

    @near_reach.undo
    def _(call: Call, result: None) -> None: ...

    assert near_reach.undo_tool is not None
    assert near_reach.undo_tool.reach == "workspace"


def test_a_tool_of_an_mcp_server_is_outside_unless_less_is_declared() -> None:
    server = MCPServer("reaching", command=["true"], tools={"near": {"reach": "machine"}})
    assert server.declare("near").reach == "machine"
    assert server.declare("other").reach == "outside"
    assert server.declare("near", tighten=True).reach == "machine"


def test_a_wrong_reach_is_refused() -> None:
    with pytest.raises(ConfigError, match="reach"):

        @tool(reach="workspce")  # type: ignore[call-overload, untyped-decorator, unused-ignore]
        def wrong_reach() -> None: ...
