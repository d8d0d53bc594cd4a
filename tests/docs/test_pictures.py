"""The animated pictures show what the commands print now."""

from __future__ import annotations

import re

import pytest

from tools.pictures import FOLDER, SCENARIOS
from tools.record import without_names
from tools.terminal import draw, last_text


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_picture_ends_as_its_scenario_ends_now(name: str) -> None:
    """If this fails, look at the change, and run `python -m tools.pictures`."""
    kept = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert _ending(draw(SCENARIOS[name]().frames, name)) == _ending(kept)


def _ending(picture: str) -> str:
    """The last frame from its last tool call on, without times, ids and line breaks."""
    text = re.sub(r"\b\d+\.\d+s", "", last_text(picture)).rpartition("●")[2]
    return without_names(text).replace(" ", "")


def test_every_picture_is_of_a_scenario() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(SCENARIOS)
