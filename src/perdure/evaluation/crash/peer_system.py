"""A peer as a system under test: its adapter is the process, and its own state is what a process finds after a kill.

A peer takes no answer of a person here, because none of them has a question that its recovery asks. Where its adapter
stops for a person (`once`), the trial ends with that question.
"""

from __future__ import annotations

from pathlib import Path

from perdure.evaluation import peers, services
from perdure.evaluation.crash.system import DurableState, ProcessOptions
from perdure.testing.postgres import PostgresServer


class PeerSystem:
    """One peer in one trial."""

    answers = False

    def __init__(self, system: str, trial: str, folder: Path, sink: str, server: PostgresServer | None = None) -> None:
        name, substrate, configuration, _ = system.split("/")
        self._peer = peers.peer(name)
        described = self._peer.describe()
        self.versions = described.versions
        self._server = (server or services.postgres()) if substrate == "postgres" else None
        self._database = self._server.create_database() if self._server is not None else None
        state = services.peer_server(self._peer) if described.server else folder
        self._options: dict[str, str | int | None] = {
            "sink": sink, "state": str(state), "trial": trial.replace(".", "-"), "configuration": configuration,
            "database": self._database,
        }  # fmt: skip

    def command(self, options: ProcessOptions) -> list[str]:
        return self._peer.command("run", **self._options, effects=options.effects, pause=options.pause or None)

    def observe(self, effects: int) -> DurableState:
        """What the adapter reads of the state of its peer, without running anything."""
        said = self._peer.inspect(**self._options, effects=effects)
        return DurableState(", ".join(f"{n} {word}" for n, word in said.items()), said)

    def close(self) -> None:
        if self._server is not None and self._database is not None:
            self._server.drop_database(self._database)
