"""The trials of the crash workload are pure data, and both forms kill everywhere."""

from __future__ import annotations

from collections import defaultdict

import msgspec
import pytest

from perdure.evaluation.crash.plan import ABILITIES, FAULTS, PLANTED, SINK_KILLS, SYSTEMS, trials
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
def test_ids_are_unique_and_may_name_folders(form: Form) -> None:
    ids = [trial.id for trial in trials(form)]
    assert len(set(ids)) == len(ids)
    assert all(id.replace("-", "").replace(".", "").replace("_", "").isalnum() for id in ids)


def test_full_form_contains_the_cells_of_the_short_one() -> None:
    short, full = ({trial.id for trial in trials(form)} for form in (Form.SHORT, Form.FULL))
    assert short <= full
    assert len(full) > 10 * len(short)
