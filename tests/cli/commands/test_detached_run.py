"""Sessions in the background: workers that start, exit when idle, and are really killed."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from perdure.testing.proxy import wait_until
from tests.cli.support.agents import AgentFolder, calls
from tests.cli.support.terminal import PROGRAMS_FILE, Terminal


def ended(pid: int) -> bool:
    """Whether a process that is not our child is gone."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


@pytest.mark.slow
@pytest.mark.databases("sqlite", "postgres")
def test_detached_program_finishes_and_its_worker_exits(
    terminal: Terminal, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_STORE", target)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(terminal.folder))
    said = terminal.process("run", "user_sleeper", "--id", "s", "--detach", "--json")
    begun = said.json
    assert (said.code, begun["type"], begun["session"]["id"]) == (0, "session.started", "s")
    terminal.until_status("s", "done")
    wait_until(lambda: ended(begun["worker"]["pid"]), "the worker has ended")
    log = Path(begun["worker"]["log"]).read_text()
    assert re.fullmatch(r"worker w-\S+\n(session s is waiting\n)*session s is done\n", log)
    assert terminal("run", "user_sleeper", "--id", "s").out == "[1,2]\n"


@pytest.mark.slow
def test_session_of_a_killed_worker_can_be_resumed(terminal: Terminal) -> None:
    said = terminal.process("run", "user_held", f"folder={terminal.folder}", "--id", "h", "--detach", "--json")
    wait_until((terminal.folder / "held").exists, "the tool has begun")
    os.kill(said.json["worker"]["pid"], signal.SIGKILL)
    wait_until(lambda: ended(said.json["worker"]["pid"]), "the worker has ended")
    (terminal.folder / "held").unlink()
    resumed = terminal.process("resume", "h")
    assert (resumed.code, "is dead" in resumed.out, "--absent" in resumed.out) == (3, True, True)
    assert not (terminal.folder / "held").exists()


@pytest.mark.slow
def test_worker_runs_known_ready_sessions_and_exits_when_idle(terminal: Terminal) -> None:
    for id in ("t-1", "t-2"):
        assert terminal("run", "user_talk", "--id", id).code == 3
        assert terminal("answer", id, "Ada").code == 0
    assert terminal("run", "user_talk", "--id", "t-3").code == 3
    said = terminal("worker", "--idle", "0.2")
    assert said.code == 0
    assert sorted(said.out.splitlines()[1:]) == ["session t-1 is done", "session t-2 is done"]
    status = {one["id"]: one["status"] for one in terminal("ls", "--json").lines}
    assert status == {"t-1": "done", "t-2": "done", "t-3": "waiting"}


def test_worker_of_one_session_ignores_the_others(terminal: Terminal) -> None:
    assert terminal("run", "user_parent", "--id", "p").code == 3
    assert terminal("run", "user_talk", "--id", "t").code == 3
    for id in ("kid", "t"):
        terminal("answer", id, "Ada")
    said = terminal("worker", "p", "--idle", "0.2")
    assert said.out.splitlines()[-1] == "session p is done"
    assert "session t " not in said.out
    assert terminal("show", "t", "--json").json["session"]["status"] == "ready"


@pytest.mark.slow
def test_worker_without_the_code_does_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal("run", "user_talk", "--id", "t")
    terminal("answer", "t", "Ada")
    monkeypatch.delenv("PERDURE_APP")
    said = terminal.process("worker", "--idle", "0")
    assert (said.code, len(said.out.splitlines())) == (0, 1)
    assert terminal.process("worker", "--idle", "0.2", "--app", PROGRAMS_FILE).out.endswith("session t is done\n")


@pytest.mark.slow
def test_session_without_its_tool_is_tried_once(work: AgentFolder) -> None:
    begin = work.script(work.hold(), "Done.")
    begun = work.terminal.process(*begin, "--detach", "--json").json
    work.until_held()
    os.kill(begun["worker"]["pid"], signal.SIGKILL)
    work.held.unlink()
    said = work.terminal.process("worker", "--idle", "1", "--app", "json")  # a module that defines nothing
    assert (said.code, said.out.splitlines()[1:]) == (0, ["session one is waiting"])
    assert "program: user_hold" in work("ls").out


@pytest.mark.slow
def test_attach_reports_why_its_worker_failed(work: AgentFolder) -> None:
    begin = work.script(calls("Hm.", ("read_file", {"path": "a.py"})), "Done.")
    assert work.terminal.process(*begin, "--once", "--detach").code == 0
    work.terminal.until_status("one", "done")
    work.terminal.process(*[word if word != "one" else "two" for word in begin])
    (work.terminal.folder / "script.json").write_text("no json")
    assert work("send", "two", "continue").code == 0
    said = work.terminal.process("attach", "two")
    assert (said.code, "The worker failed." in said.err, "is not a JSON list of turns" in said.err) == (
        2, True, True,
    )  # fmt: skip


@pytest.mark.parametrize("store", ["memory:", "files:there"])
def test_store_for_one_process_has_no_background_worker(terminal: Terminal, store: str) -> None:
    said = terminal("run", "user_talk", "--detach", "--store", store)
    assert (said.code, "one process at a time" in said.err) == (2, True)
    assert not Path("there").exists()


@pytest.mark.slow
def test_worker_stays_for_a_timer_that_is_due_soon(terminal: Terminal) -> None:
    begun = terminal.process("run", "user_naps", "seconds=3", "--id", "n", "--detach", "--json").json
    terminal.until_status("n", "waiting")
    os.kill(begun["worker"]["pid"], signal.SIGKILL)
    said = terminal.process("worker", "--idle", "0.1")
    assert (said.code, said.out.splitlines()[1:]) == (0, ["session n is done"])


@pytest.mark.slow
def test_idle_worker_reports_the_next_timer(terminal: Terminal) -> None:
    begun = terminal.process("run", "user_naps", "--id", "n", "--detach", "--json").json
    terminal.until_status("n", "waiting")
    os.kill(begun["worker"]["pid"], signal.SIGKILL)
    said = terminal.process("worker", "--idle", "0")
    assert re.search(r"^The next timer is due at .* \(in 9h.*\)\. Start a worker then\.$", said.out, re.MULTILINE), said
