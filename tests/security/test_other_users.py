"""Attack: another user of the machine prepares a folder that Perdure would use, or reads what it keeps."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.artifacts.directory import Directory
from perdure.errors import StoreUnavailable
from perdure.runtime.workers.private_folder import runtime_folder
from tests.cli.support.agents import AgentFolder, calls


@pytest.fixture
def shared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like /tmp, in which every user may create files."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder / f"perdure-{os.getuid()}"


def test_a_runtime_folder_that_another_user_made_is_refused(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root gives the folder away. Another user cannot, so it takes another id: then the folder is not its own."""
    shared.mkdir(0o777)
    if os.getuid() == 0:
        os.chown(shared, 65534, 65534)
    else:
        other = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: other)
        shared.rename(shared.with_name(f"perdure-{other}"))
    with pytest.raises(StoreUnavailable, match="belongs to another user"):
        runtime_folder()


def test_a_link_in_place_of_the_runtime_folder_is_refused(shared: Path) -> None:
    (shared.parent / "elsewhere").mkdir()
    shared.symlink_to(shared.parent / "elsewhere")
    with pytest.raises(StoreUnavailable, match="belongs to another user"):
        runtime_folder()


def test_a_runtime_folder_that_others_could_write_is_closed(shared: Path) -> None:
    shared.mkdir()
    shared.chmod(0o777)
    assert stat.S_IMODE(runtime_folder().stat().st_mode) == 0o700


@pytest.fixture
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_umask")
def test_an_artifact_is_for_its_owner_alone(folder: Path) -> None:
    name, _ = Directory(folder / "large").put([b"secret"])
    (path,) = (folder / "large").rglob(name)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)] == [0o600, 0o700]


@pytest.mark.slow
@pytest.mark.usefixtures("_open_umask")
def test_another_user_can_read_nothing_that_a_session_kept(work: AgentFolder) -> None:
    begin = work.script(calls("I write.", ("write_file", {"path": "b.txt", "content": "a secret of ada\n"})), "Done.")
    assert work(*begin, "--allow", "write_file", "--once").code == 0
    (work.terminal.folder / "work").chmod(0o700)  # the person's own folder is the person's own matter
    os.chmod(work.terminal.folder, 0o755)
    assert list(_readable_for_others(work.terminal.folder)) == []
    if os.getuid() == 0:  # only root can become another user and look
        found = subprocess.run(
            ["find", str(work.terminal.folder), "-type", "f", "-readable", "-not", "-name", "script.json"],
            capture_output=True, text=True, user=65534, group=65534, extra_groups=[], check=False,
        )  # fmt: skip
        assert found.stdout == ""


def _readable_for_others(folder: Path) -> Iterator[Path]:
    """The files whose modes, and those of the folders above them, let another user read them."""
    for entry in folder.iterdir() if folder.stat().st_mode & stat.S_IXOTH else ():
        if entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _readable_for_others(entry)
        elif entry.stat().st_mode & stat.S_IROTH and entry.name != "script.json":
            yield entry
