"""What the store's tests share."""

from collections.abc import Iterator

import pytest

from tests.store.crew import Crew


@pytest.fixture(scope="session")
def crew() -> Iterator[Crew]:
    crew = Crew(8)
    yield crew
    crew.close()
