"""Tools of MCP servers: real server processes, their rules, their failures, and their end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Call, MCPServer
from perdure.agent.mcp.server import Hints, is_stricter
from perdure.agent.mcp.transport import LARGEST
from perdure.errors import ConfigError, NotDone, SessionWaiting
from perdure.runtime.definitions.tool import TOOLS
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import RecordingModel, calls, lines
from tests.agent.support.mcp_worker import ROOT, declare_server
from tests.agent.support.requirements import need_bubblewrap

pytestmark = [pytest.mark.databases("sqlite"), pytest.mark.slow]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def told(model: RecordingModel, nth: int = -1) -> list[str]:
    return [turn.text for turn in model.requests[nth].turns if turn.role == "tool"]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


async def until_dead(pid: int) -> None:
    async with asyncio.timeout(60):
        while is_alive(pid):
            await asyncio.sleep(0.05)


async def test_tools_of_a_server_are_offered_and_called(target: str, log: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    script = [
        calls(("mcp_tested_add", {"a": 1, "b": 2}), ("mcp_tested_look", {}), ("mcp_tested_picture", {})),
        calls(("mcp_tested_fail", {"text": "luck"}), ("mcp_tested_add", {"a": "x"}), ("mcp_tested_nothing", {})),
        "Done.",
    ]
    model = RecordingModel(script)
    server = declare_server(log, env={"GIVEN": "given"}, tools={"destroy": None})
    agent = Agent("uses", model=model, tools=[], policy=None, mcp=[server])
    async with open_runtime(target) as runtime:
        assert (await agent.run("Go.", id="talk", runtime=runtime)).output == "Done."
        assert {one.tool async for one in runtime.effects(session="talk") if one.tool != "model"} == {
            "mcp.tested.add", "mcp.tested.look", "mcp.tested.picture", "mcp.tested.fail"
        }  # fmt: skip
    offers = {one.name: one for one in model.requests[0].tools}
    assert "mcp_tested_destroy" not in offers
    assert offers["mcp_tested_add"].description == "Add two numbers."
    assert sorted(offers["mcp_tested_add"].schema["required"]) == ["a", "b"]
    first = told(model, 1)
    assert first[0] == "done (from mcp:tested): 3"
    assert first[1].startswith("done (from mcp:tested): None given ")
    assert "[image/png, about 300 bytes: not shown]" in first[2]
    second = told(model, 2)[3:]
    assert second[0].startswith("done (from mcp:tested): Error executing tool fail")
    assert "validation error" in second[1]
    assert second[2].startswith("not started: there is no tool 'mcp_tested_nothing'")
    await until_dead(int(log.read_text().split()[1]))  # the process ends with the run


async def test_server_says_nothing_that_loosens_a_rule(target: str, log: Path) -> None:
    server = declare_server(log, tools={"destroy": {"replay": "pure"}, "add": {"replay": "pure"}})
    model = RecordingModel(
        [calls(("mcp_tested_add", {"a": 1, "b": 1})), calls(("mcp_tested_claims_to_read", {"text": "x"}))]
    )
    agent = Agent("uses", model=model, tools=[], mcp=[server])
    async with open_runtime(target) as runtime:
        with pytest.raises(SessionWaiting) as waiting:
            await agent.run("Go.", id="talk", runtime=runtime)
        (asked,) = waiting.value.waits
        assert (asked.kind, asked.detail["tool"]) == ("approval", "mcp.tested.claims_to_read")
    rules = {name: TOOLS[f"mcp.tested.{name}"].replay for name in ("add", "claims_to_read", "destroy", "fail")}
    assert rules == {"add": "pure", "claims_to_read": "escalate", "destroy": "escalate", "fail": "escalate"}
    assert told(model) == ["done (from mcp:tested): 2"]


@pytest.mark.parametrize(
    ("declared", "hints", "stricter"),
    [
        ("pure", Hints(), False),
        ("pure", Hints(read_only=True), False),
        ("pure", Hints(read_only=False), True),
        ("pure", Hints(destructive=True), True),
        ("idempotent", Hints(idempotent=False), True),
        ("idempotent", Hints(read_only=False, destructive=True), False),
        ("escalate", Hints(read_only=True, idempotent=True), False),
    ],
)
def test_hints_only_tighten(declared: str, hints: Hints, stricter: bool) -> None:
    assert is_stricter(declared, hints) is stricter


async def test_outcome_is_unknown_when_the_server_dies_or_hangs(target: str, log: Path) -> None:
    script = [calls(("mcp_tested_die", {"text": "x"})), calls(("mcp_tested_add", {"a": 1, "b": 1})), "Died."]
    server = declare_server(log, tools={"add": {"replay": "pure"}})
    model = RecordingModel(script)
    agent = Agent("uses", model=model, tools=[], policy=None, mcp=[server])
    hanging = Agent(
        "hangs", model=RecordingModel([calls(("mcp_slow_hang", {})), "Hung."]), tools=[], policy=None,
        mcp=[declare_server(log, name="slow", timeout="2s")],
    )  # fmt: skip
    async with open_runtime(target) as runtime:
        with pytest.raises(SessionWaiting):
            await agent.run("Go.", id="dies", runtime=runtime)
        with pytest.raises(SessionWaiting):
            await hanging.run("Go.", id="hangs", runtime=runtime)
        doubts = {one.tool async for one in runtime.effects(in_doubt=True)}
        assert doubts == {"mcp.tested.die", "mcp.slow.hang"}
    first, second = told(model)
    assert first.startswith("unknown: ")
    assert second == "done (from mcp:tested): 2"  # the next call starts the server again
    words = log.read_text().split()
    assert words.count("die") == 1
    await until_dead(int(words[words.index("hang") + 1]))


async def test_large_results_are_bounded(target: str, log: Path) -> None:
    sizes = [calls(("mcp_tested_large", {"size": size})) for size in (200_000, LARGEST + 1)]
    model = RecordingModel([*sizes, "Large."])
    server = declare_server(log, tools={"large": {"replay": "pure", "retry": 1}})
    agent = Agent("uses", model=model, tools=[], policy=None, mcp=[server])
    async with open_runtime(target) as runtime:
        await agent.run("Go.", id="talk", runtime=runtime)
    shown, refused = told(model)
    assert len(shown) < 60_000
    assert "characters are left out" in shown or "cut: " in shown
    assert refused.startswith("failed: ")


async def test_server_that_cannot_start_is_reported_and_does_not_stop_the_agent(target: str, tmp_path: Path) -> None:
    broken = MCPServer("broken", command=[sys.executable, "-c", "raise SystemExit('out of order')"], sandbox=False)
    missing = MCPServer("missing", command=["no-such-program"])
    model = RecordingModel(["Without tools.", "Still without."])
    agent = Agent("uses", model=model, tools=[], mcp=[broken, missing])
    async with open_runtime(target) as runtime:
        await runtime.start(agent.bind("Go."), id="talk")
        await runtime.run("talk")
        await runtime.send("talk", "Again.")
        await runtime.run("talk")
        notes = [one["content"] for one in await lines(runtime) if one.get("about") == "mcp"]
    (note,) = notes  # the same problem is reported once
    assert "The MCP server broken cannot be used: its process ended with 1: out of order." in note
    assert "The MCP server missing cannot be used: There is no program no-such-program." in note


async def test_killed_worker_ends_its_server_and_does_not_repeat_the_call(target: str, log: Path) -> None:
    command = [sys.executable, "-m", "tests.agent.support.mcp_worker", target, str(log)]
    worker = subprocess.Popen(command)
    try:
        async with asyncio.timeout(60):
            while not log.exists() or "hang" not in log.read_text():
                await asyncio.sleep(0.05)
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    await until_dead(int(log.read_text().split()[1]))
    server = declare_server(log)
    model = RecordingModel([calls(("mcp_tested_hang", {})), "I do not know."])
    agent = Agent("uses", model=model, tools=[], policy=None, mcp=[server])
    for name in [name for name in TOOLS if name.startswith("mcp.")]:
        del TOOLS[name]  # as in a new process: recovery comes before the server lists its tools
    async with open_runtime(target) as runtime:
        with pytest.raises(SessionWaiting):
            await agent.run("Go.", id="talk", runtime=runtime)
        assert [one.tool async for one in runtime.effects(in_doubt=True)] == ["mcp.tested.hang"]
    assert log.read_text().count("hang") == 1


async def test_server_runs_in_the_sandbox_of_commands(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bubblewrap()
    monkeypatch.setenv("PERDURE_READABLE", str(ROOT / "tests"))  # also if it is below `/tmp`
    folder = tmp_path / "work"
    folder.mkdir()
    server = declare_server(folder / "log", sandbox=True)
    model = RecordingModel([calls(("mcp_tested_look", {})), "Seen."])
    agent = Agent("uses", model=model, tools=[], policy=None, mcp=[server])
    await agent.run("Go.", store=target, repository=folder)
    assert told(model) == ["done (from mcp:tested): None None is enclosed"]


async def test_server_is_reached_over_http(target: str, log: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "tests.agent.support.mcp_server", str(log), str(port)])
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0.05)
        model = RecordingModel([calls(("mcp_web_add", {"a": 1, "b": 2})), "Three."])
        server = MCPServer("web", url=f"http://127.0.0.1:{port}/mcp")
        await Agent("uses", model=model, tools=[], policy=None, mcp=[server]).run("Go.", store=target)
        assert told(model) == ["done (from mcp:web): 3"]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"name": "a b", "command": ["x"]}, "is no name"),
        ({"name": "a"}, "a command or a url"),
        ({"name": "a", "command": ["x"], "url": "http://x"}, "a command or a url"),
        ({"name": "a", "command": "x y"}, "a command or a url"),
        ({"name": "a", "command": ["x"], "tools": {"t": {"replay": "probe"}}}, "cannot be 'probe'"),
    ],
)
def test_wrong_declaration_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        MCPServer(**given)


def test_two_servers_of_one_name_are_refused() -> None:
    same = [MCPServer("a", command=["x"]), MCPServer("a", command=["y"])]
    with pytest.raises(ConfigError, match="two MCP servers have the same name"):
        Agent("uses", model=RecordingModel([]), tools=[], mcp=same)


async def test_missing_package_is_named(target: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    agent = Agent("uses", model=RecordingModel(["x"]), tools=[], mcp=[MCPServer("a", command=["x"])])
    with pytest.raises(ConfigError, match="MCP servers need a package") as refused:
        await agent.run("Go.", store=target)
    assert "perdure[mcp]" in refused.value.hint


async def test_tool_cannot_be_called_outside_of_its_agent() -> None:
    MCPServer("alone", command=["x"], tools={"add": {"replay": "pure"}})
    with pytest.raises(NotDone, match="can only be used by an agent"):
        await TOOLS["mcp.alone.add"].function(Call("k", 1, "s", "e"), arguments={})
