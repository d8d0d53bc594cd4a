"""The recipes for comments, migrations and cron, killed with SIGKILL and run again. Payments are in test_user_files."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import perdure
from examples.recipes import data_migration
from perdure.testing import Sink
from perdure.testing.proxy import wait_until
from tests.tidy.source import ROOT

RECIPES = ROOT / "examples" / "recipes"
GITHUB = ROOT / "tests" / "examples" / "support" / "github.py"


def start(name: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    line = [sys.executable, str(RECIPES / f"{name}.py"), *arguments]
    return subprocess.Popen(
        line, env=os.environ | environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


class GitHub:
    def __init__(self, folder: Path) -> None:
        self.log, self.hold = folder / "github.log", folder / "hold"
        line = [sys.executable, str(GITHUB), str(self.log), str(self.hold)]
        self.process = subprocess.Popen(line, text=True, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.settings = {
            "GITHUB_URL": f"http://127.0.0.1:{self.process.stdout.readline().strip()}",
            "GITHUB_TOKEN": "secret",
            "GITHUB_INFLIGHT": "100ms",
            "COMMENT_STORE": str(folder / "s.db"),
        }

    def comments(self) -> int:
        return len(self.log.read_text().splitlines())

    def start(self, name: str) -> subprocess.Popen[str]:
        return start("pull_request_comment", name, "a/b", "7", f"This is {name}.", **self.settings)


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHub]:
    service = GitHub(tmp_path)
    yield service
    service.process.kill()
    service.process.communicate()


@pytest.mark.slow
def test_a_comment_on_a_later_page_is_found_after_a_kill(github: GitHub) -> None:
    for name in ("first", "second"):  # they fill the first page
        assert github.start(name).communicate(timeout=180)[1] == ""
    github.hold.touch()
    killed = github.start("third")
    wait_until(lambda: github.comments() == 3, "the service has the comment")
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    github.hold.unlink()
    out, err = github.start("third").communicate(timeout=180)
    assert out.strip() == "https://github.example/repos/a/b/issues/7/comments/2", err
    assert github.comments() == 3


PRODUCTS = 2500


@pytest.mark.slow
def test_every_price_is_converted_once_although_the_migration_is_killed(tmp_path: Path) -> None:
    store = str(tmp_path / "shop.db")

    async def prepare() -> None:
        async with perdure.open(store):
            database = apsw.Connection(store)
            database.execute("create table product (id integer primary key, euros integer)")
            with database:
                database.executemany("insert into product values (?, ?)", [(id, id) for id in range(1, PRODUCTS + 1)])
            database.close()

    asyncio.run(prepare())
    killed = start("data_migration", store)
    wait_until(lambda: _columns(store) == 3, "the column is added")
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    out, err = start("data_migration", store).communicate(timeout=180)
    assert out == f"{-(-PRODUCTS // data_migration.BATCH)} batches\n", err
    assert _value(store, "select count(*) from product where cents = id * 100 and euros = 0") == PRODUCTS


def _columns(store: str) -> int:
    return _value(store, "select count(*) from pragma_table_info('product')")


def _value(store: str, query: str) -> int:
    database = apsw.Connection(store)
    found: int = database.execute(query).get
    database.close()
    return found


def test_a_second_start_of_a_cron_job_sends_no_second_report(tmp_path: Path) -> None:
    with Sink() as sink:
        given = {
            "REPORT_URL": f"{sink.url}/reports",
            "REPORT_DAY": "2026-03-01",
            "REPORT_STORE": str(tmp_path / "s.db"),
        }
        first = start("nightly_report", **given).communicate(timeout=180)[0]
        second = start("nightly_report", **given).communicate(timeout=180)[0]
        assert first == "counting the orders of 2026-03-01\n2026-03-01: 42 orders\n"
        assert second == "2026-03-01: 42 orders\n"
        assert sink.counts() == {"kept": 1, "posted": 1}
