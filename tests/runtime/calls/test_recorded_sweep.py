"""Recorded values, retries and calls side by side, killed with SIGKILL at every moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.testing import Sink, crash_sweep
from perdure.testing.postgres import PostgresServer
from tests.runtime.support import recorded_app


@pytest.mark.slow
def test_a_kill_at_any_moment_repeats_no_effect(tmp_path: Path) -> None:
    with Sink() as sink:
        report = crash_sweep(recorded_app.post_notes.bind(), app=recorded_app, sink=sink, store=tmp_path, lanes=2)
    assert report.ok, str(report)


@pytest.mark.soak
@pytest.mark.postgres
def test_a_kill_at_any_moment_repeats_no_effect_on_postgres(postgres_server: PostgresServer) -> None:
    with Sink() as sink:
        report = crash_sweep(
            recorded_app.post_notes.bind(),
            app=recorded_app,
            sink=sink,
            store=postgres_server.create_database(),
            lanes=2,
        )
    assert report.ok, str(report)
