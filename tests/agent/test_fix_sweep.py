"""An agent that fixes a repository, killed at every durable operation and around every act, on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.support import fix_agent
from tests.agent.support.agent_sweep import MakeSweep, Scenario, check_report, show
from tests.seed import sample

SCENARIO = Scenario(
    "the agent", fix_agent, fix_agent.fixer.bind("fix add", True), fix_agent.run_agent, fix_agent.make_template
)


def durable(moments: list[str]) -> list[int]:
    """After every commit, and around every act; until the next of these, nothing more is durable. Soak takes all."""
    return [at for at, label in enumerate(moments, 1) if not label.startswith(("move.", "answer.", "commit.before"))]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_agent_does_everything_once(make_sweep: MakeSweep, sweep_store: str | Path) -> None:
    sweep = make_sweep(sweep_store)
    sweep.run(choose=lambda moments: sample(durable(moments), 5 if sweep.url else 16))
    show(sweep)
    check_report(sweep)


@pytest.mark.soak
def test_an_agent_killed_again_in_its_recovery_does_everything_once(make_sweep: MakeSweep, sweep_folder: Path) -> None:
    sweep = make_sweep(sweep_folder / "again")
    sweep.run(twice=True)
    assert not show(sweep, "killed twice").failures, "\n".join(sweep.report.failures)
