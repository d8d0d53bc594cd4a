"""Commands: they get the body on their input, and end with 0 or have failed."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

import pytest

from perdure.domain.notification import Notification
from perdure.runtime.notifications import program
from perdure.runtime.notifications.channels import CommandChannel, NotSent
from perdure.testing.proxy import wait_until

ONE = Notification("n-1", "ops", None, "doubt", {"id": "n-1"}, 0, "pending", 1, 0, None, None, None)


def python(code: str, *words: str) -> CommandChannel:
    return CommandChannel(command=(sys.executable, "-c", code, *words))


async def test_a_command_gets_its_words_and_the_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_STORE", "postgresql://u:secret@h/d")
    code = "import os, sys; open(sys.argv[1], 'w').write(repr((sys.argv[2:], sys.stdin.read(), sorted(os.environ))))"
    await program.send(python(code, str(tmp_path / "got"), "a b; $(id)"), ONE, b'{"id":"n-1"}')
    words, body, names = eval((tmp_path / "got").read_text())
    assert (words, body) == (["a b; $(id)"], '{"id":"n-1"}')
    ours = {one for one in names if one.startswith("PERDURE_")}
    assert ours == {"PERDURE_NOTIFICATION_ID", "PERDURE_NOTIFICATION_TOPIC"}


async def test_a_command_that_fails_has_not_taken_it() -> None:
    with pytest.raises(NotSent, match="ended with 3"):
        await program.send(python("raise SystemExit(3)"), ONE, b"{}")
    with pytest.raises(NotSent, match="cannot be started"):
        await program.send(CommandChannel(command=("/nonexistent/command",)), ONE, b"{}")


async def test_a_command_that_takes_too_long_is_stopped_with_its_children(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys, time; child = subprocess.Popen(['sleep', '300']); "
        "open(sys.argv[1] + '.new', 'w').write(f'{os.getpid()} {child.pid}'); "
        "os.rename(sys.argv[1] + '.new', sys.argv[1]); time.sleep(300)"
    )
    sending = asyncio.ensure_future(program.send(python(code, str(tmp_path / "pids")), ONE, b"{}"))
    await asyncio.to_thread(wait_until, (tmp_path / "pids").exists, "the command runs", 60)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    for pid in (tmp_path / "pids").read_text().split():
        wait_until(partial(_ended, int(pid)), "it was stopped")


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return True
