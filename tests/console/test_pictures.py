"""The pictures of the documentation can be taken, and each page shows what its picture is about."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console.support.pictures import PAGES, PHONE, WIDE, prepare, take_all, visitor
from tests.console.support.scene import Scene
from tests.tidy.source import ROOT

pytestmark = pytest.mark.slow


def size(file: Path) -> dict[str, int]:
    """The size of a PNG, from its header."""
    head = file.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return dict(zip(("width", "height"), struct.unpack(">II", head[16:24]), strict=True))


def test_every_picture_is_taken_and_documented(browser: Browser, stage: Scene, tmp_path: Path, folder: Path) -> None:
    prepare(stage, folder)
    take_all(browser, stage, tmp_path)
    names = {*PAGES, "console-phone"}
    assert {one.stem: size(one) for one in tmp_path.iterdir()} == dict.fromkeys(PAGES, WIDE) | {"console-phone": PHONE}
    documented = (ROOT / "docs" / "how-to" / "console.md").read_text() + (ROOT / "README.md").read_text()
    assert set(re.findall(r"pictures/(console-\w+)\.png", documented)) == names
    assert {one.stem for one in (ROOT / "docs" / "pictures").glob("console-*.png")} == names
    page = visitor(browser, stage, viewport=WIDE)
    page.goto("/")
    for kind in ("approval", "doubt", "question"):
        expect(page.locator("#needs .badge", has_text=kind).first).to_be_attached()
    page.goto("/sessions/fix-cart")
    expect(page.get_by_role("button", name="Approve")).to_be_in_viewport()
    page.context.close()
