"""Take the pictures of the console in the documentation: `python -m tools.screenshots`.

The service, its worker and the browser are those of the tests. A test takes the same pictures into a temporary folder;
they are not compared, because they show times and fonts.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.console.conftest import FLAGS
from tests.console.support.pictures import prepare, take_all
from tests.console.support.scene import scene

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"


def main() -> int:
    with tempfile.TemporaryDirectory() as name, scene(f"{name}/perdure.db", Path(name)) as stage:
        prepare(stage, Path(name))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
            take_all(browser, stage, FOLDER)
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
