"""Durable files: a file is written whole or not at all, and a folder is made with its parents."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from perdure.control import receipts
from perdure.durable import create, make_folder, write_whole
from perdure.errors import StoreUnavailable


def test_write_whole_replaces_a_file(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        write_whole(tmp_path / "file", content)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_write_whole_keeps_the_old_file_when_a_sync_fails(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"old")
    with mock.patch.object(os, "fsync", side_effect=OSError(5, "it failed")), pytest.raises(OSError, match="it failed"):
        write_whole(tmp_path / "file", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_create_refuses_a_file_that_exists(tmp_path: Path) -> None:
    create(tmp_path / "file").close()
    with pytest.raises(FileExistsError):
        create(tmp_path / "file")


def test_make_folder_reports_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot be made"):
        make_folder(tmp_path / "file" / "below")


def test_receipt_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    receipts.keep("0" * 64)
    assert not receipts.has("0" * 64)
