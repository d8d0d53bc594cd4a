"""A store in a folder that cannot be written can be inspected."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from perdure.store.moves import session
from perdure.store.store import open_store
from tests.cli.support.terminal import PERDURE, CommandResult, Terminal

BOUNDING_SET_DROP = 24  # of prctl
OVERRIDES = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: with them root may write anywhere
LOOKS = [("ls",), ("show", "s-1"), ("effects",), ("approvals",), ("verify",), ("restores",), ("brief", "s-1")]


def obey_permissions() -> None:
    """Let permission bits hold for root too, in a process that is about to begin."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in OVERRIDES:
            if libc.prctl(BOUNDING_SET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "a capability cannot be dropped")


def look(*words: str) -> CommandResult:
    ended = subprocess.run(
        [PERDURE, *words], capture_output=True, text=True, timeout=180, check=False, preexec_fn=obey_permissions
    )
    return CommandResult(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture(params=["closed", "with a WAL", "files"])
def frozen(request: pytest.FixtureRequest, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store as it is found: closed in order, copied while it was open, or made of text files."""
    there, folder = terminal.folder / "live", terminal.folder / "frozen"
    target = f"files:{there / 'files'}" if request.param == "files" else str(there / "perdure.db")
    there.mkdir()
    with open_store(target) as store:
        store.write_now(session.create(session.NewSession(id="s-1", program="p", arguments={}), by="ada"))
        if request.param == "with a WAL":
            folder.mkdir()
            for name in ("perdure.db", "perdure.db-wal"):
                shutil.copy(there / name, folder)
            assert (folder / "perdure.db-wal").stat().st_size
    if not folder.exists():
        shutil.copytree(there, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    monkeypatch.setenv("PERDURE_STORE", target.replace(str(there), str(folder)))
    return folder


@pytest.mark.slow
def test_store_in_a_read_only_folder_is_inspected(frozen: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in frozen.rglob("*")}
    for words in LOOKS:
        said = look(*words)
        assert (said.code, said.err) == (0, ""), (words, said)
    assert "s-1" in look("ls").out
    doctor = look("doctor", "--deep", "--json")
    assert (doctor.code, doctor.json["sessions"], doctor.json["damaged"]) == (1, {"ready": 1}, [])
    assert any("can only be read" in one["what"] for one in doctor.json["findings"])
    assert {path: path.stat().st_mtime_ns for path in frozen.rglob("*")} == before
    for path in (frozen, *frozen.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)  # so that the folder can be removed
