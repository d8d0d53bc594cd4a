"""A hostile command at every sandbox level of this machine: what it cannot do, and what must still work."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from perdure.agent.commands.sandbox import Level, available, level_for
from perdure.agent.commands.state import MIB, Bounds
from perdure.agent.files.workspace import Workspace
from perdure.errors import EffectInDoubt, NotDone
from perdure.secrets import redaction
from tests.agent.support.requirements import need_bubblewrap, need_landlock
from tests.agent.support.sandbox_run import SandboxedFolder, until

PYTHON = Path(sys.base_prefix, "bin", "python3")  # one that is not in a folder that a sandbox hides
LEVELS = (Level.BUBBLEWRAP, Level.LANDLOCK)


def sandboxed_at(level: Level, folder: Path) -> SandboxedFolder:
    if level is Level.BUBBLEWRAP:
        need_bubblewrap()
    if level is Level.LANDLOCK:
        need_landlock()
    return SandboxedFolder(folder, level)


@pytest.fixture(params=LEVELS)
def sandboxed(request: pytest.FixtureRequest, tmp_path: Path) -> SandboxedFolder:
    return sandboxed_at(request.param, tmp_path)


@pytest.fixture(params=(*LEVELS, Level.NONE))
def any_sandboxed(request: pytest.FixtureRequest, tmp_path: Path) -> SandboxedFolder:
    return sandboxed_at(request.param, tmp_path)


def test_a_command_works_in_its_folder_and_reads_the_rest(sandboxed: SandboxedFolder) -> None:
    ending, said = sandboxed.run(
        "echo new > src/file && mkdir src/deep && mv src/file src/deep && cat /etc/passwd && mktemp"
    )
    assert (ending.how, ending.code) == ("exited", 0), said
    assert (sandboxed.root / "src/deep/file").read_text() == "new\n"
    assert "root:" in said


def test_a_command_runs_in_a_process_with_many_open_files(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while opened[-1] < 1100:
            opened.append(os.dup(opened[0]))
        ending, _ = sandboxed_at(Level.NONE, tmp_path).run("true")
    finally:
        for one in opened:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (ending.how, ending.code) == ("exited", 0)


def test_nothing_outside_the_folder_can_be_written(sandboxed: SandboxedFolder) -> None:
    diary = sandboxed.world / "diary"
    _, said = sandboxed.run(
        f"echo x > {diary}; echo x > {sandboxed.world}/new; rm {diary}; mv {diary} src/; ln {diary} src/linked"
    )
    assert diary.read_text() == "dear diary"
    assert os.listdir(sandboxed.world) == ["diary"]
    assert not (sandboxed.root / "src/linked").exists(), said


def test_a_symbolic_link_cannot_be_used_to_write_outside(sandboxed: SandboxedFolder) -> None:
    sandboxed.run(
        f"echo x > out; echo x > src/out; ln -s {sandboxed.world} src/way; echo x > src/way/diary; echo x > src/way/new"
    )
    assert (sandboxed.world / "diary").read_text() == "dear diary"
    assert os.listdir(sandboxed.world) == ["diary"]


@pytest.mark.parametrize(
    "attack",
    [
        "echo evil > .git/hooks/pre-commit",
        "git config core.fsmonitor ./evil",
        "echo ../evil > .git/commondir",
        "mv .git elsewhere; git init -q .",
        "rm -rf .git; git init -q .",
        "mkdir src/git; mv -T src/git .git",
    ],
)
def test_git_hooks_and_settings_cannot_be_written(sandboxed: SandboxedFolder, attack: str) -> None:
    before = contents(sandboxed.root / ".git")
    _, said = sandboxed.run(f"{attack}; exit 1")
    assert contents(sandboxed.root / ".git") == before, said


def test_git_can_be_read(sandboxed: SandboxedFolder) -> None:
    sandboxed.run("echo new > src/file")
    ending, said = sandboxed.run("git status --short && git log --format=%s && git diff")
    assert ending.code == 0, said
    assert said.splitlines()[-1] == "first words"
    assert "?? src/" in said.splitlines()


def test_the_store_cannot_be_written_or_replaced(sandboxed: SandboxedFolder) -> None:
    store = sandboxed.store
    sandboxed.run(
        f"echo x > {store}; rm {store}; mv src {store}; mv state elsewhere; echo x > {store}-wal; truncate -s0 {store}"
    )
    assert store.read_text() == "the record"
    assert sorted(os.listdir(store.parent)) == ["perdure.db", "scratch"]


def test_bubblewrap_hides_the_store(tmp_path: Path) -> None:
    sandboxed = sandboxed_at(Level.BUBBLEWRAP, tmp_path)
    _, said = sandboxed.run(f"cat {sandboxed.store}")
    assert "the record" not in said


def test_a_command_cannot_kill_a_process_outside(sandboxed: SandboxedFolder) -> None:
    with subprocess.Popen(["sleep", "1000"]) as victim:
        try:
            ending, said = sandboxed.run(f"kill -9 {victim.pid}; kill -9 $PPID; echo alive")
            assert victim.poll() is None
            assert (ending.how, ending.code) == ("exited", 0)
            assert "alive" in said
        finally:
            victim.kill()


@pytest.mark.slow
def test_a_fork_bomb_is_stopped(any_sandboxed: SandboxedFolder) -> None:
    # A bomb that goes out by itself: if it were not ended, it would be a few hundred sleepers and not the machine.
    bomb = "grow() { [ $1 -gt 0 ] && { grow $(($1-1)) & grow $(($1-1)) & wait; } || sleep 60; }; grow 8"
    ending, _ = any_sandboxed.run(bomb, bounds=Bounds(seconds=60, processes=40))
    assert ending.how == "processes"
    assert any_sandboxed.left_behind() == []


def test_a_command_that_writes_too_much_is_stopped(any_sandboxed: SandboxedFolder) -> None:
    fill = "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero > src/$i; done"
    ending, _ = any_sandboxed.run(fill, bounds=Bounds(seconds=60, disk=8 * MIB))
    assert ending.how == "disk"
    assert any_sandboxed.left_behind() == []


def test_one_file_cannot_fill_the_disk(any_sandboxed: SandboxedFolder) -> None:
    ending, _ = any_sandboxed.run("exec head -c 4000000 /dev/zero > src/big", bounds=Bounds(seconds=60, file=MIB))
    assert ending.code != 0
    assert (any_sandboxed.root / "src/big").stat().st_size == MIB


def test_endless_output_is_limited(any_sandboxed: SandboxedFolder) -> None:
    ending, said = any_sandboxed.run(
        "head -c 5000000 /dev/zero | tr '\\0' 'x'; echo; echo last words", bounds=Bounds(output=MIB)
    )
    assert ending.code == 0
    assert len(said) < MIB + 10_000
    assert said.endswith("last words\n")
    assert "bytes left out" in said


@pytest.mark.slow
def test_a_command_is_stopped_at_its_time_limit(any_sandboxed: SandboxedFolder) -> None:
    ending, said = any_sandboxed.run("trap '' TERM; echo begun; while :; do sleep 1; done", bounds=Bounds(seconds=1))
    assert (ending.how, said) == ("timeout", "begun\n")
    assert any_sandboxed.left_behind() == []


def test_a_daemon_left_behind_ends_with_the_command(any_sandboxed: SandboxedFolder) -> None:
    daemon = "setsid sh -c 'sleep 1000 > src/log 2>&1 < /dev/null & exit' & while [ ! -e src/log ]; do sleep 0.01; done"
    ending, _ = any_sandboxed.run(daemon)
    assert (ending.how, ending.code) == ("exited", 0)
    assert any_sandboxed.left_behind() == []


def test_a_command_dies_with_its_runner(tmp_path: Path) -> None:
    sandboxed = SandboxedFolder(tmp_path, Level.NONE)  # without this it could kill its runner, or continue alone
    with pytest.raises(EffectInDoubt):
        sandboxed.run("kill -9 $PPID; exec sleep 1000")
    until(lambda: sandboxed.left_behind() == [])


def test_a_command_has_no_privileges(sandboxed: SandboxedFolder) -> None:
    _, said = sandboxed.run("grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status")
    assert said.split()[:2] == ["CapEff:", "0" * 16]
    assert said.split()[-2:] == ["NoNewPrivs:", "1"]
    assert said.split()[3] == "0" * 16 or os.geteuid() != 0  # only root can empty the bound


def test_a_command_gets_no_descriptors_and_no_secrets(
    any_sandboxed: SandboxedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hush")
    monkeypatch.setenv("PERDURE_STORE", "hush")
    monkeypatch.setenv("UNKNOWN_NAME", "hush")
    monkeypatch.setenv("LC_NAME", "hello")
    redaction.add("env:SECRET", "a-known-secret")
    monkeypatch.setenv("PIP_INDEX_URL", "https://example.org/a-known-secret/simple")
    names = "$ANTHROPIC_API_KEY $PERDURE_STORE $UNKNOWN_NAME $PIP_INDEX_URL $LC_NAME"
    _, said = any_sandboxed.run(f"echo /proc/self/fd/*; echo {names}")
    descriptors, told = said.splitlines()
    assert {int(Path(one).name) for one in descriptors.split()} <= {0, 1, 2, 3}  # 3 is the listing itself
    assert told == "hello"


def test_a_read_only_command_cannot_write_in_the_folder(sandboxed: SandboxedFolder) -> None:
    ending, _ = sandboxed.run("echo x > src/file", read_only=True)
    assert ending.code != 0
    assert not (sandboxed.root / "src/file").exists()


def test_the_network_is_unreachable(sandboxed: SandboxedFolder, web: str) -> None:
    _, said = sandboxed.run(fetch(web))
    assert "welcome" not in said
    assert "refused" in said or "denied" in said


def test_the_network_is_reachable_when_allowed(sandboxed: SandboxedFolder, web: str) -> None:
    _, said = sandboxed.run(fetch(web), workspace=sandboxed.workspace(network=True))
    assert "welcome" in said


@pytest.mark.slow
def test_no_datagram_is_sent(sandboxed: SandboxedFolder) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind(("127.0.0.1", 0))
        ear.setblocking(False)
        code = f"import socket; socket.socket(2, 2).sendto(b'psst', ('127.0.0.1', {ear.getsockname()[1]}))"
        sandboxed.run(f'{PYTHON} -I -c "{code}"')
        with pytest.raises(BlockingIOError):
            ear.recv(100)
        sandboxed.run(f'{PYTHON} -I -c "{code}"', workspace=sandboxed.workspace(network=True))
        assert ear.recv(100) == b"psst"


def test_a_git_folder_that_is_a_link_is_refused(sandboxed: SandboxedFolder) -> None:
    shutil.move(sandboxed.root / ".git", sandboxed.root / "src/git")
    (sandboxed.root / ".git").symlink_to("src/git")
    with pytest.raises(NotDone, match="symbolic link"):
        sandboxed.run("true")


def test_a_protected_path_that_does_not_exist_is_refused(sandboxed: SandboxedFolder) -> None:
    workspace = Workspace(
        sandboxed.root, session_uid="u", scratch=sandboxed.world, protected=(sandboxed.root / "later.db",)
    )
    with pytest.raises(NotDone, match=r"later\.db is protected and does not exist"):
        sandboxed.run("true", workspace=workspace)


def test_the_strongest_level_is_used(tmp_path: Path) -> None:
    need_bubblewrap()
    assert available() is level_for(Workspace(tmp_path, session_uid="u")) is Level.BUBBLEWRAP


NO_SANDBOX = """
import ctypes, sys
from pathlib import Path
from perdure.agent.commands import landlock, sandbox
from perdure.agent.files.workspace import Workspace
from perdure.errors import NotDone

lines = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)]
program = (landlock._Instruction * 4)(*(landlock._Instruction(*line) for line in lines))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(landlock._Filter(4, program)), 0, 0) == 0
print(sandbox.available())
print(sandbox.level_for(Workspace(Path("."), session_uid="u", unsandboxed=True)))
try:
    sandbox.level_for(Workspace(Path("."), session_uid="u"))
except NotDone as refused:
    print(refused)
"""


def test_without_a_sandbox_a_command_needs_permission(tmp_path: Path) -> None:
    """A kernel without Landlock and a path without bubblewrap."""
    bare = os.environ | {"PATH": str(tmp_path)}
    said = subprocess.check_output([sys.executable, "-c", NO_SANDBOX], env=bare, text=True).splitlines()
    assert said == ["none", "none", "No sandbox is available here, so the command was not run."]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fetch(url: str) -> str:
    code = f"import urllib.request as r; print(r.build_opener(r.ProxyHandler({{}})).open('{url}', timeout=5).read())"
    return f'{PYTHON} -I -c "{code}" 2>&1'


@pytest.fixture
def web() -> Iterator[str]:
    """A web server in this process, on the loopback of this machine."""

    class Welcome(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"welcome")

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Welcome) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()
