"""A store without a folder of its own is given one for large things."""

from __future__ import annotations

from pathlib import Path

import pytest

import perdure
from perdure import Session, program
from perdure.artifacts.directory import Directory
from perdure.ids import digest


@program
async def saves_something_large(s: Session) -> str:
    return await s.save(b"a large thing")


@pytest.mark.databases("postgres", "memory")
async def test_large_values_go_to_the_configured_folder(target: str, folder: Path) -> None:
    async with perdure.open(target, artifacts=folder) as rt:
        begun = await rt.start(saves_something_large.bind(), id="large")
        done = await rt.run(begun.id)
    assert done.result == digest(b"a large thing")
    assert Directory(folder).get(done.result) == b"a large thing"


@pytest.mark.databases("memory")
async def test_without_a_folder_the_error_explains_how_to_set_one(target: str) -> None:
    async with perdure.open(target) as rt:
        begun = await rt.start(saves_something_large.bind(), id="large")
        failed = await rt.run(begun.id)
    assert failed.status == "failed"
    assert failed.error["code"] == "config"
