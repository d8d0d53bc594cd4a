"""The tools that ship with Perdure, and how an agent offers each."""

from __future__ import annotations

from perdure.agent.commands.sandbox import level_for
from perdure.agent.git.sandboxed_git import level_of
from perdure.agent.toolbox import AgentTool
from perdure.agent.tools import command, edit, fetch, files, git, plan, push, search

_EDITS = ((edit.write_file, edit.write_details), (edit.edit_file, edit.edit_details))
_GIT = (git.git_commit, git.git_branch, git.git_push)
_PURE = (
    files.read_file, files.list_files, search.search_files, git.git_log, fetch.fetch_url,
)  # fmt: skip
_SANDBOXED = (git.git_status, git.git_diff)
_RECORDS = (plan.plan, plan.decide, plan.decided, plan.remember, plan.recall)

SHIPPED: dict[str, AgentTool] = {
    one.tool.name: one
    for one in (
        *(AgentTool(tool) for tool in (*_PURE, *_RECORDS)),
        *(AgentTool(tool, level=level_for) for tool in _SANDBOXED),
        *(
            AgentTool(tool, edit.HIDDEN[tool.name], edit.PREPARE[tool.name], details=details, serial=True)
            for tool, details in _EDITS
        ),
        *(
            AgentTool(
                tool,
                git.HIDDEN.get(tool.name, frozenset()),
                git.PREPARE.get(tool.name),
                level=level_of,
                details=push.push_details if tool is git.git_push else None,
                serial=True,
            )
            for tool in _GIT
        ),
        AgentTool(
            command.run_command,
            pick=command.pick,
            level=level_for,
            reattach=command.reattach,
            details=command.command_details,
            serial=True,
        ),
        AgentTool(plan.save_artifact, frozenset({"digest", "size"}), plan.prepare_artifact),
        AgentTool(plan.ask_person, kind="ask"),
        AgentTool(plan.delegate, kind="child"),
    )
}
