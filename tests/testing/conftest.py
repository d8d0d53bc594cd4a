"""A sink for the tests of what `perdure.testing` offers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure.testing import Sink


@pytest.fixture(scope="session")
def sink() -> Iterator[Sink]:
    with Sink() as running:
        yield running
