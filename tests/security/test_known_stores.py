"""Attack: a command reads another store that Perdure knows of."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from perdure.store.store import open_store
from tests.agent.conftest import _own_names, open_runtime
from tests.agent.support.conversation import Conversation, calls, lines
from tests.agent.support.requirements import need_bubblewrap

__all__ = ["_own_names"]


async def test_every_store_that_the_process_knows_is_hidden(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores that lie where nothing else hides them: in the environment, in the user's file, and open beside."""
    need_bubblewrap()
    work_folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    work_folder.chmod(0o755)
    named, written, beside = (work_folder / f"{name}.db" for name in ("named", "written", "beside"))
    for path in (named, Path(f"{named}-wal"), written):
        path.write_text("a prompt of another session")
        path.chmod(0o644)
    monkeypatch.setenv("PERDURE_STORE", str(named))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    (folder / "config" / "perdure").mkdir(parents=True)
    (folder / "config" / "perdure" / "config.toml").write_text(f'store = "{written}"\n')
    try:
        with open_store(str(beside)):
            beside.chmod(0o644)
            conversation = Conversation(str(folder / "own.db"))
            looks = f"grep -rl 'of another session' {work_folder}; wc -c {beside}; echo looked"
            conversation.declare(
                [calls(("run_command", {"command": looks})), "Done."], ["run_command"], snapshots=False
            )
            async with open_runtime(conversation.target) as runtime:
                (folder / "work").mkdir()
                await conversation.start(runtime, once=True, repository=folder / "work")
                (said,) = [line["content"] for line in await lines(runtime) if line["role"] == "tool"]
    finally:
        shutil.rmtree(work_folder)
    seen = [line for line in said.splitlines() if str(work_folder) in line]
    assert [line for line in seen if not line.endswith("Permission denied")] == []
    assert len(seen) >= 4
    assert "looked" in said
