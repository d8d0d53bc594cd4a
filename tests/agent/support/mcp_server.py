"""A real MCP server in a process of its own, written with the official package.

python -m tests.agent.support.mcp_server LOG [PORT]    over standard input and output, or HTTP with a port
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.types import ImageContent, TextContent, ToolAnnotations

LOG = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("log")
server = MCPServer("tested", log_level="CRITICAL")


def log(line: str) -> None:
    with LOG.open("a") as file:
        file.write(f"{line}\n")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    log(f"add {os.getpid()}")
    return a + b


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def claims_to_read(text: str) -> str:
    """It says that it only reads."""
    log(f"claims {text}")
    return text


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False))
def destroy(text: str) -> str:
    """It says that it destroys."""
    log(f"destroy {text}")
    return text


@server.tool()
def fail(text: str) -> str:
    """It fails."""
    raise ValueError(f"no {text}")


@server.tool()
def die(text: str) -> str:
    """It ends its own process after it has acted."""
    log(f"die {text}")
    os._exit(1)


@server.tool()
def hang() -> str:
    """It never answers."""
    import time

    log(f"hang {os.getpid()}")
    time.sleep(3600)
    return "never"


@server.tool()
def large(size: int) -> str:
    """A long text."""
    return "x" * size


@server.tool()
def picture() -> list[Any]:
    """Binary content."""
    return [
        TextContent(type="text", text="here:"),
        ImageContent(type="image", data="AAAA" * 100, mime_type="image/png"),
    ]


@server.tool()
def look() -> str:
    """What it can see: its environment, its folder, and whether it can write outside of it."""
    try:
        Path("/etc/perdure-was-here").write_text("x")
        Path("/etc/perdure-was-here").unlink()
        outside = "writes outside"
    except OSError:
        outside = "is enclosed"
    return f"{os.environ.get('SECRET_TOKEN')} {os.environ.get('GIVEN')} {outside}"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
