"""Running commands: one tool for the model, two in the ledger.

A command that only reads is `pure`. Any other is `escalate`: its effects cannot be known from outside, so it is never
run again automatically. But its command runner outlives the worker and records how it ended; `reattach` finds that
record, and a person is asked only when the runner was killed too. An exit code is a result and never an error.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from perdure.agent.commands.executables import executable, search_path
from perdure.agent.commands.read_only import READ_ONLY, is_read_only, quiet_git, words
from perdure.agent.commands.sandbox import Level, available, command_line, environment, level_for
from perdure.agent.commands.state import Bounds, CommandAttempts, CommandExit, CommandState
from perdure.agent.files.workspace import Workspace, here
from perdure.agent.git.repository import SETTINGS
from perdure.agent.history.command_origins import origins_of
from perdure.agent.tools.result import ToolResult, plain, short
from perdure.config import FILE
from perdure.domain.effect import AttemptOutcome
from perdure.errors import NotDone, StoreError
from perdure.ids import new_uid
from perdure.runtime.definitions.tool import Call, Tool, tool
from perdure.secrets.redaction import stream

__all__ = ["READ_ONLY", "end", "forget", "is_read_only", "pick", "reattach", "run_command", "run_read_only"]

SHOWN = 16 << 10  # bytes of output in a result, half of them from the end
LONGEST = 3600
CHUNK = 1 << 20
_POLL_SECONDS = 0.1
_NO_SETTINGS = "no-settings"  # in the folder of an attempt: no perdure.toml existed when it began
UNTRUSTED = f"{FILE}.untrusted"
_ENDINGS = {
    "timeout": "Stopped: it reached its time limit.",
    "processes": "Stopped: it started too many processes.",
    "disk": "Stopped: it wrote too much to the disk.",
}


@tool(replay="escalate", reach="machine")
def run_command(call: Call, command: str, timeout: int = 120) -> ToolResult:
    """Run a shell command in the folder; returns its exit code and its output. `timeout` is in seconds.

    It ends with everything that it started: no process stays in the background. It may write in the folder and in /tmp.
    """
    attempts = CommandAttempts(here(), call.key)
    return _run(attempts, call, ["/bin/sh", "-c", command], command, timeout, read_only=False)


run_command.outlives_worker = True


@tool(name="run_command.look", replay="pure", retry=1, reach="machine")
def run_read_only(call: Call, command: str, timeout: int = 120) -> ToolResult:
    """Run a command that only reads."""
    if not _is_read_only(command) or (argv := words(command)) is None:
        raise NotDone(f"{short(command)} may change something.")
    if (line := read_only_line(argv)) is None:
        call.reference("exit 127")
        return ToolResult(f"exit 127\n{argv[0]}: not found", origin=_origin(command), failed=True)
    attempts = CommandAttempts(here(), new_uid())
    try:
        return _run(attempts, call, line, command, timeout, read_only=True)
    finally:
        attempts.forget()


def pick(arguments: dict[str, Any]) -> Tool[..., Any]:
    """The tool that a call of `run_command` uses."""
    command = arguments.get("command")
    return run_read_only if isinstance(command, str) and _is_read_only(command) else run_command


def _is_read_only(command: str) -> bool:
    """Git may run a filter that the repository names; without approval it does so only in a sandbox."""
    found = words(command)
    return is_read_only(command) and (found is None or found[0] != "git" or available(here().root) is not Level.NONE)


def read_only_line(argv: list[str]) -> list[str] | None:
    """The command line of a read-only command: a program outside the folder; git starts no other program."""
    if (program := executable(argv[0], here().root)) is None:
        return None
    if argv[0] != "git":
        return [program, *argv[1:]]
    settings = [word for one in (*SETTINGS, "format.pretty=medium") for word in ("-c", one)]
    return [program, *settings, *quiet_git(argv[1:])]


def read_only_environment(workspace: Workspace, level: Level, temporary: Path) -> dict[str, str]:
    """The environment of a read-only command: no program of the folder is found, and no missing object is fetched."""
    quiet = {"PATH": search_path(workspace.root), "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
    return environment(workspace, level, temporary) | quiet


def command_details(workspace: Workspace, _: dict[str, Any]) -> dict[str, Any]:
    """The level of the sandbox, and whether the command can reach the network."""
    try:
        level = str(level_for(workspace))
    except NotDone:  # the command itself will report it
        level = "unavailable"
    return {"sandbox": level, "network": "yes" if workspace.network else "no"}


class CommandOutcome(msgspec.Struct, frozen=True):
    """The outcome of a command that outlived its worker, in the form that the ledger needs."""

    outcome: AttemptOutcome
    why: str
    result: str | None = None
    error: str | None = None
    reference: str | None = None


async def reattach(key: str, workspace: Workspace, *, attempt: int | None = None) -> CommandOutcome | None:
    """Find a command again, on the machine where it was run, and wait for it if it is still running.

    With the number of the attempt, a command that never began is found too, and from then on it cannot begin: only for
    an attempt that was made on this machine. None: the outcome is unknown.
    """
    attempts = CommandAttempts(workspace, key)
    number = attempt or attempts.newest()
    if number == 0:
        return None
    waited = False
    while (state := attempts.state(number, final=attempt is not None)) is CommandState.RUNNING:
        waited = True
        await asyncio.sleep(_POLL_SECONDS)
    command_exit = attempts.exit_of(number)
    if command_exit is not None:
        why = "it was waited for until it ended." if waited else "it had ended, and its exit was recorded."
        result = run_command.signature.encode_result(_result(command_exit, workspace, changed=True))
        return CommandOutcome(AttemptOutcome.ACKNOWLEDGED, why, result, reference=_describe_exit(command_exit))
    if state is CommandState.NEVER and attempt is not None:
        return CommandOutcome(AttemptOutcome.ABSENT, "it never began.")
    return None


def running(key: str, workspace: Workspace) -> int | None:
    """The process id of the runner of a running command; None if there is none."""
    return CommandAttempts(workspace, key).runner_pid()


def end(key: str, workspace: Workspace, *, because: str) -> bool:
    """End a running command with everything it started; its result says so. False if there is none."""
    return CommandAttempts(workspace, key).end(because)


def stop(key: str, workspace: Workspace, by: str) -> None:
    """End a running command because a person interrupts the session; its result says who stopped it."""
    stop_attempts(CommandAttempts(workspace, key), by)


def stop_attempts(attempts: CommandAttempts, by: str) -> None:
    threading.Thread(target=attempts.end, args=(stopped_because(by),), daemon=True, name="perdure-stop").start()


def stopped_because(by: str) -> str:
    return f"{by} stopped it, and it may be partly done"


def forget(key: str, workspace: Workspace) -> None:
    """Remove the files of a command, once its outcome is in the ledger."""
    CommandAttempts(workspace, key).forget()


def _run(
    attempts: CommandAttempts, call: Call, argv: list[str], command: str, timeout: int, *, read_only: bool
) -> ToolResult:
    workspace = here()
    level = level_for(workspace)
    temporary = attempts.prepare(call.attempt, command)
    if not os.path.lexists(workspace.root / FILE):
        (temporary.parent / _NO_SETTINGS).touch()
    hidden = (attempts.folder.parent,)
    line = command_line(workspace, argv, level=level, temporary=temporary, hidden=hidden, read_only=read_only)
    variables = (read_only_environment if read_only else environment)(workspace, level, temporary)
    call.on_stop(lambda by: stop_attempts(attempts, by))
    command_exit = attempts.run(
        call.attempt,
        line,
        workspace=workspace,
        environment=variables,
        bounds=Bounds(seconds=max(1, min(timeout, LONGEST))),
        beat=call.heartbeat,
        stopped=lambda: None if call.stopped_by is None else stopped_because(call.stopped_by),
    )
    call.reference(_describe_exit(command_exit))
    return _result(command_exit, workspace, changed=not read_only)


def _result(command_exit: CommandExit, workspace: Workspace, *, changed: bool) -> ToolResult:
    output = command_exit.folder / "output"
    size = output.stat().st_size if output.exists() else 0
    parts = (_describe_exit(command_exit), _output_text(output, size), _rename_settings(command_exit, workspace))
    command = (command_exit.folder / "command").read_text(encoding="utf-8", errors="replace")
    return ToolResult(
        "\n".join(filter(None, parts)),
        origin=_origin(command),
        origins=origins_of(command, workspace),
        artifact=_store_output(output, workspace) if size > SHOWN else None,
        failed=command_exit.how != "exited" or command_exit.code != 0,
        changed=changed,
    )


def _rename_settings(command_exit: CommandExit, workspace: Workspace) -> str:
    """Rename a perdure.toml that the command made: a sandbox cannot protect a file that did not exist."""
    made = workspace.root / FILE
    if not (command_exit.folder / _NO_SETTINGS).exists() or not os.path.lexists(made):
        return ""
    made.rename(made.with_name(UNTRUSTED))
    return f"{FILE} holds the settings of Perdure, so the file that this command made was renamed to {UNTRUSTED}."


def _describe_exit(command_exit: CommandExit) -> str:
    if command_exit.how == "ended":
        return f"Stopped: {command_exit.because or 'its runner was asked to stop'}."
    if command_exit.how != "exited":
        return _ENDINGS[command_exit.how]
    return f"exit {command_exit.code}" if command_exit.code >= 0 else f"Ended by signal {-command_exit.code}."


def _output_text(output: Path, size: int) -> str:
    """The output, or its beginning and its end with a count of what is left out between them."""
    if size <= SHOWN:
        return plain(output.read_bytes().decode(errors="replace")).rstrip() if size else ""
    half = SHOWN // 2
    with open(output, "rb") as file:
        head = file.read(half)
        file.seek(size - half)
        tail = file.read(half)
        head, tail = head[: head.rfind(b"\n") + 1] or head, tail[tail.find(b"\n") + 1 :] or tail
        lines = _count(file, len(head), size - len(tail))
    omission = f"… {lines:,} lines left out …" if lines else f"… {size - len(head) - len(tail):,} bytes left out …"
    return plain(f"{head.decode(errors='replace').rstrip()}\n{omission}\n{tail.decode(errors='replace').rstrip()}")


def _count(file: Any, start: int, stop: int) -> int:
    file.seek(start)
    return sum(chunk.count(b"\n") for chunk in _pieces(lambda: file.read(min(CHUNK, stop - file.tell()))))


def _pieces(read: Callable[[], bytes]) -> Iterator[bytes]:
    while chunk := read():
        yield chunk


def _redacted(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The runner knew the secrets that were known when the command began; others may be known since then."""
    if (redaction := stream()) is None:
        yield from pieces
        return
    yield from map(redaction.feed, pieces)
    yield redaction.end()


def _store_output(output: Path, workspace: Workspace) -> str | None:
    """Store the bytes first; the recorded result claims them. A full disk costs the rest of the output only."""
    if workspace.artifacts is None:
        return None
    try:
        with open(output, "rb") as file:
            return workspace.artifacts.put(_redacted(_pieces(lambda: file.read(CHUNK))))[0]
    except StoreError:
        return None


def _origin(command: str) -> str:
    return f"command:{short(command)}"
