"""The trials of the crash workload are pure data, and both forms kill everywhere."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import msgspec
import pytest

from perdure.evaluation.crash.plan import (
    ABILITIES,
    AGENTS,
    CHECKPOINT,
    FAULTS,
    PLANTED,
    SINK_KILLS,
    SYSTEMS,
    rank,
    trials,
)
from perdure.evaluation.crash.trial import CrashParameters
from perdure.evaluation.workload import Form


@pytest.mark.parametrize("form", list(Form))
def test_every_system_is_killed_everywhere_in_both_forms(form: Form) -> None:
    met: dict[str, set[str]] = defaultdict(set)
    for trial in trials(form):
        given = msgspec.convert(trial.parameters, CrashParameters)
        met[trial.system] |= {given.kill, given.fault, given.ability, "again" if given.again != "none" else ""}
    for system in SYSTEMS:
        assert {"between", "again", *SINK_KILLS, *FAULTS, *ABILITIES} <= met[system]
        assert any(kill.startswith("syscall:") for kill in met[system])
    assert {system for system, *_ in PLANTED} <= met.keys()
    assert any(kill.startswith("server:") for kill in met["perdure/postgres/default/on"])


@pytest.mark.parametrize("form", list(Form))
def test_agents_are_killed_around_their_checkpoint(form: Form) -> None:
    kills = {(trial.system, trial.parameters.get("kill")) for trial in trials(form)}
    for system in AGENTS[:2]:
        assert {(system, f"syscall:sync:{CHECKPOINT + n}") for n in (-1, 0, 1)} <= kills
    assert any(system == AGENTS[2] and str(kill).startswith("syscall:send:") for system, kill in kills)


def test_trials_that_wait_are_spread_over_the_run() -> None:
    made = [trial.system for trial in trials(Form.SHORT)]
    places = [place for place, system in enumerate(made) if system.startswith("temporal/")]
    apart = [after - before for before, after in pairwise(places)]
    assert min(apart) > 3  # lanes


def test_tables_show_our_systems_first_and_peers_as_documented_first() -> None:
    shown = sorted({trial.system for trial in trials(Form.FULL)}, key=rank)
    assert shown[:3] == list(SYSTEMS[:3])
    assert shown.index(AGENTS[1]) == shown.index("perdure/sqlite/default/full") + 1
    peers = [one for one in shown if one.startswith("langgraph/sqlite/")]
    assert [one.split("/")[2] for one in peers] == ["documented", "key", "lookup", "once", "default"]


@pytest.mark.parametrize("form", list(Form))
def test_ids_are_unique_and_may_name_folders(form: Form) -> None:
    ids = [trial.id for trial in trials(form)]
    assert len(set(ids)) == len(ids)
    assert all(id.replace("-", "").replace(".", "").replace("_", "").isalnum() for id in ids)


def test_full_form_contains_the_cells_of_the_short_one() -> None:
    short, full = ({trial.id for trial in trials(form)} for form in (Form.SHORT, Form.FULL))
    assert short <= full
    assert len(full) > 10 * len(short)
