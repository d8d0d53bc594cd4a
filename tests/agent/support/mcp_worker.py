"""An agent in a process of its own that calls a tool of an MCP server which never answers.

python -m tests.agent.support.mcp_worker TARGET LOG    runs it until it is killed
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from perdure import Agent, MCPServer
from tests.agent.support.conversation import RecordingModel, calls

ROOT = Path(__file__).parents[3]


def declare_server(log: Path, name: str = "tested", *, sandbox: bool = False, **more: Any) -> MCPServer:
    """The server of the tests, which writes what it does to a file."""
    env = {"PYTHONPATH": str(ROOT)} | more.pop("env", {})
    command = [sys.executable, "-m", "tests.agent.support.mcp_server", str(log)]
    return MCPServer(name, command=command, env=env, sandbox=sandbox, **more)


async def main(target: str, log: Path) -> None:
    model = RecordingModel([calls(("mcp_tested_hang", {})), "I do not know."])
    agent = Agent("uses", model=model, tools=[], policy=None, mcp=[declare_server(log)])
    await agent.run("Go.", id="talk", store=target)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
