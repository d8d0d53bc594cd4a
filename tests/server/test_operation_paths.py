"""Which operation a path belongs to."""

from __future__ import annotations

import re

import pytest

from perdure.server.operations import TABLE
from perdure.server.requests.operation_paths import OperationPaths

PATHS = OperationPaths(TABLE)


def test_each_operation_is_found_at_its_path() -> None:
    for one in TABLE:
        names = re.findall(r"{([a-z]+)}", one.path)
        operations, given = PATHS.find(re.sub(r"{([a-z]+)}", r"=\1", one.path))
        assert operations[one.method] is one
        assert given == {name: f"={name}" for name in names}


def test_a_name_that_is_a_segment_elsewhere_is_a_parameter() -> None:
    operations, given = PATHS.find("/v1/sessions/sessions/events")
    assert (operations["GET"].name, given) == ("events.list", {"id": "sessions"})


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/sessions/", "/v1/sessions//events", "/v1/sessions/x/events/", "/v1/sessions/x/y/z"]
)
def test_other_paths_have_no_operation(path: str) -> None:
    assert PATHS.find(path) == ({}, {})
