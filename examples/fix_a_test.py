"""Your own agent, with tools, a policy and a model. `perdure demo` runs it, kills it and resumes it.

    export PERDURE_APP=examples/one_comment.py,examples/fix_a_test.py
    perdure run fixer prompt="The test fails. Fix it." --repo DIR

    FIXER_MODEL=anthropic:NAME  the model; by default a script, model.json in the current folder
    COMMENTS_URL=http://...     the service for comments; examples/one_comment.py shows how to start one
    FIXER_UNSANDBOXED=1         lets commands run on a machine without a sandbox

In addition to the tools that ship, it has `post_comment` of one_comment.py: any function can be a tool.
"""

import os

from perdure import Agent, Intent, PolicyAnswer

TOOLS = [
    *("plan", "decide", "decided", "read_file", "search_files", "edit_file", "write_file", "run_command"),
    *("git_status", "git_diff", "git_commit", "git_push", "post_comment"),
]


def ask_before_a_push(intent: Intent) -> PolicyAnswer:
    """A push leaves the machine, so a person must approve it. A policy returns allow, ask or deny."""
    return "ask" if intent.tool == "git_push" else "allow"


fixer = Agent(
    "fixer",
    model=os.environ.get("FIXER_MODEL", "scripted:model.json"),
    tools=TOOLS,
    policy=ask_before_a_push,
    unsandboxed="FIXER_UNSANDBOXED" in os.environ,
)
