"""`perdure import`: what a refused bundle leaves and costs."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from perdure.errors import BundleInvalid
from perdure.interchange import rows
from tests.cli.support.terminal import Terminal
from tests.interchange.support.forged_bundles import content, with_manifest, write_folder

SIZE = 4 << 20


def test_invalid_rows_use_little_memory() -> None:
    content = b"\n" * SIZE
    tracemalloc.start()
    try:
        with pytest.raises(BundleInvalid):
            rows.read("event", content)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < SIZE


def test_refused_bundle_creates_no_store(terminal: Terminal, folder: Path) -> None:
    terminal("run", "user_talk", "--id", "t")
    assert terminal("export", "t", "--to", "honest").code == 0
    forged = content(folder / "honest") | {"events.jsonl": b"{}\n"}
    write_folder(folder / "forged", with_manifest(forged))
    assert terminal("import", "forged", "--store", "new.db").code == 1
    assert not (folder / "new.db").exists()
