"""`perdure serve` while its database is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.testing.postgres import PostgresServer
from tests.control.supervisor.support.deployment import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


def test_a_tree_without_its_database_ends_normally(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    with PostgresServer() as server:
        deployment = Deployment(server.create_database(), folder)
        try:
            served = deployment.start("serve", "--workers", "1", "--port", "0", "--verbose")
            deployment.until_served()
            server.kill()
            served.terminate()
            assert served.wait(300) == 0
        finally:
            deployment.close()
        assert "error:" not in deployment.log
