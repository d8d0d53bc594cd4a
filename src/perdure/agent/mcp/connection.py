"""Connections to MCP servers during one run of an agent. They are opened when they are needed, and closed with the run.

connect    a task owns the connection from its beginning to its end
call       one request. An answer of any kind is a result: the outcome is known. A connection that ends, or no answer
           in time, leaves the outcome unknown
closed     the process of a server is ended with the run; the kernel ends it if the worker is killed
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.agent.mcp.content import result_of
from perdure.agent.tools.result import ToolResult
from perdure.errors import ConfigError, NotDone, PerdureError, ToolError
from perdure.runtime.description import short_text

if TYPE_CHECKING:
    from perdure.agent.files.workspace import Workspace
    from perdure.agent.mcp.server import MCPServer

START = 30.0  # seconds until a server must have answered the first request
PAGES = 20  # of a list of tools
LOCAL_ERRORS = (-32000, -32001)  # the connection was closed, or no answer came in time

GetWorkspace = Callable[[Path], "Workspace"]  # the folder of the session; without one, a temporary folder is given
_CURRENT: ContextVar[dict[str, ServerConnection] | None] = ContextVar("perdure_mcp", default=None)


def current_connection(server: str) -> ServerConnection:
    """The connection of the run whose tool is running."""
    found = (_CURRENT.get() or {}).get(server)
    if found is None:
        raise NotDone(f"The MCP server {server} can only be used by an agent that declares it.")
    return found


@contextmanager
def active(connections: dict[str, ServerConnection]) -> Iterator[None]:
    """Make these the current connections inside the `with` block."""
    token = _CURRENT.set(connections)
    try:
        yield
    finally:
        _CURRENT.reset(token)


class ServerConnection:
    """A connection to one server; a connection that has ended is opened again by the next call."""

    def __init__(self, server: MCPServer, workspace: GetWorkspace) -> None:
        self.server = server
        self._workspace = workspace
        self._session: asyncio.Future[Any] | None = None
        self._leave = asyncio.Event()
        self._owners: list[asyncio.Task[None]] = []  # of this connection, and of earlier ones that have not ended yet

    async def list_tools(self) -> list[Any]:
        """The tools that the server lists; raises `NotDone` if it cannot be reached."""
        session, found = await self._open(), list[Any]()
        cursor: str | None = None
        try:
            async with asyncio.timeout(START):
                for _ in range(PAGES):
                    params = None if cursor is None else _types().PaginatedRequestParams(cursor=cursor)
                    page = await session.list_tools(params=params)
                    found += page.tools
                    cursor = page.next_cursor
                    if not cursor:
                        break
        except Exception as error:
            raise self._unreachable(error) from error
        return found

    async def call(self, tool: str, arguments: dict[str, Any], key: str) -> ToolResult:
        """Call a tool. The server is given the idempotency key in the `_meta` of the request."""
        session = await self._open()
        params = _types().CallToolRequestParams(name=tool, arguments=arguments, _meta={"perdure/key": key})
        request = _types().CallToolRequest(params=params)
        try:
            async with asyncio.timeout(self.server.timeout):
                answer = await session.send_request(request, _types().CallToolResult)
        except Exception as error:
            code = getattr(getattr(error, "error", None), "code", None)
            if code is None or code in LOCAL_ERRORS:
                self._drop(session)
                raise ToolError(f"MCP server {self.server.name}: {tool} was called, and {_reason(error)}.") from error
            said = f"The server answered with an error: {short_text(error.error.message, 2000)}"  # type: ignore[attr-defined]
            return ToolResult(said, origin=f"mcp:{self.server.name}", failed=True)
        return await asyncio.to_thread(result_of, self.server.name, answer)

    async def close(self) -> None:
        self._leave.set()
        if self._owners:
            await asyncio.wait(self._owners, timeout=2 * START)
            for owner in self._owners:
                owner.cancel()
            await asyncio.wait(self._owners)

    def _drop(self, session: Any) -> None:
        """End a connection that has failed, unless another call has done that already; the next call opens another."""
        if self._session is not None and self._session.done() and self._session.result() is session:
            self._leave.set()
            self._session = None

    async def _open(self) -> Any:
        """The session of the package. Nothing was asked of the server if this fails."""
        if self._session is None:
            self._session, self._leave = asyncio.get_running_loop().create_future(), asyncio.Event()
            self._owners = [one for one in self._owners if not one.done()]
            self._owners.append(asyncio.ensure_future(self._own(self._session, self._leave)))
        opened = self._session
        try:
            async with asyncio.timeout(START):
                return await asyncio.shield(opened)
        except Exception as error:
            if self._session is opened:
                self._leave.set()
                self._session = None
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> NotDone:
        return NotDone(f"The MCP server {self.server.name} cannot be used: {_reason(error)}.")

    async def _own(self, opened: asyncio.Future[Any], leave: asyncio.Event) -> None:
        """Open the connection, and keep it until it is closed from either side."""
        try:
            async with AsyncExitStack() as stack:
                session = await stack.enter_async_context(_connected(self.server, self._workspace, stack))
                await _first(session.initialize(), leave.wait())
                if not leave.is_set():
                    opened.set_result(session)
                    await leave.wait()
        except Exception as error:
            _fail(opened, error)
        finally:
            _fail(opened, ConnectionError("the connection was closed"))


@asynccontextmanager
async def _connected(server: MCPServer, workspace: GetWorkspace, stack: AsyncExitStack) -> AsyncIterator[Any]:
    from mcp import ClientSession

    if server.url is not None:
        from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client  # type: ignore[attr-defined]

        client = await stack.enter_async_context(create_mcp_http_client(headers=server.headers))
        streams = streamable_http_client(server.url, http_client=client)
        async with streams as (read, write), ClientSession(read, write) as session:
            yield session
        return
    from perdure.agent.mcp.transport import ServerCommand, messages

    start = ServerCommand(server.command, server.env, sandbox=server.sandbox, network=server.network)
    async with start.start(workspace) as process, messages(process) as (read, write), ClientSession(read, write) as one:
        yield one


def _fail(opened: asyncio.Future[Any], error: Exception) -> None:
    if not opened.done():
        opened.set_exception(error)
        opened.exception()  # it is raised where it is awaited, if it is


async def _first(*work: Coroutine[Any, Any, Any]) -> None:
    """Wait for the first of several, and raise what it raised; the others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _types() -> Any:
    from mcp import types

    return types


def check_installed() -> None:
    """Raise `ConfigError` if the package is missing."""
    try:
        import mcp  # noqa: F401 - to see whether it is there
    except ImportError:
        raise ConfigError(
            "MCP servers need a package that is not installed.", hint="Run `pip install 'perdure[mcp]'`."
        ) from None


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, PerdureError):
        return error.message.rstrip(".")
    with suppress(Exception):
        return short_text(f"{type(error).__name__}: {error}", 500).rstrip(".")
    return type(error).__name__
