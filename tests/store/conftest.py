"""Fixtures of the store's tests."""

from collections.abc import Iterator

import pytest

from tests.store.support.process_group import ProcessGroup


@pytest.fixture(scope="session")
def processes() -> Iterator[ProcessGroup]:
    group = ProcessGroup(8)
    yield group
    group.close()
