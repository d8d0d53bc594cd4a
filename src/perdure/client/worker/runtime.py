"""The runtime of a worker over a service: the same code as beside a database, over `ServiceDatabase`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perdure.client.address import find_token, read_address
from perdure.client.connection import PATIENCE, ServiceConnection
from perdure.client.worker.artifacts import ServiceArtifacts
from perdure.client.worker.database import ServiceDatabase
from perdure.config import data_folder
from perdure.domain.literals import PolicyAnswer
from perdure.ids import digest, new_name
from perdure.runtime.ledger.policy import Intent
from perdure.runtime.runtime import LEASE, Runtime
from perdure.store.store import Store


def open_worker_runtime(
    url: str,
    token: str | None = None,
    *,
    policy: Callable[[Intent], PolicyAnswer] | None = None,
    lease: str | float = LEASE,
    artifacts: str | Path | None = None,
    patience: float = PATIENCE,
    notice: Callable[[str], None] | None = None,
) -> Runtime:
    """A runtime that runs sessions of a service. `artifacts` is the folder for large values and snapshots here.

    `notice` is told if a service that has not answered yet is waited for.
    """
    address = read_address(url)
    connection = ServiceConnection(address, find_token(token, address), patience=patience)
    connection.notice = notice or connection.notice
    database = ServiceDatabase(connection)
    folder = Path(artifacts) if artifacts is not None else data_folder() / "services" / digest(address.shown)[:16]
    runtime = Runtime(
        Store(database, address.shown), policy=policy, by=database.welcome.name, lease=lease, artifacts=folder
    )
    keeps = database.welcome.keeps_artifacts  # otherwise large values stand in the rows, as beside the database
    runtime.values.directory = ServiceArtifacts(folder, database.transport) if keeps else None
    runtime.worker_about["id"] = f"{new_name('w')}.{database.welcome.tag}"
    return runtime
