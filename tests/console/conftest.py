"""One browser and one scene for each module."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from perdure.testing import ManualClock
from tests.console.support.scene import Scene, scene
from tests.console.support.visit import Visit, visiting
from tests.memory import MEMORY
from tests.packages import need

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
PATIENCE = 180_000  # milliseconds
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def stage(empty_file: Path) -> Iterator[Scene]:
    """The service with its console, on a store that the tests of a module share."""
    with TemporaryDirectory(prefix="perdure-test-", dir=MEMORY) as name:
        target = shutil.copy(empty_file, name)
        with scene(str(target), Path(name)) as made:
            yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need("chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def context(browser: Browser, stage: Scene) -> Iterator[BrowserContext]:
    """A new profile of the browser."""
    made = browser.new_context(base_url=stage.address)
    made.set_default_timeout(PATIENCE)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
async def visit(target: str, clock: ManualClock) -> AsyncIterator[Visit]:
    """The service in this process, on each database."""
    async with visiting(target, clock) as made:
        yield made
