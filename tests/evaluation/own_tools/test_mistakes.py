"""Each of the ten planted mistakes is found under its name, and the same tools without it are correct."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from perdure.errors import ConfigError
from perdure.evaluation.own_tools.diagnosis import Mistake, ToolVerdict
from perdure.evaluation.own_tools.examination import Laboratory, examine, laboratory
from perdure.evaluation.own_tools.process import ProcessSettings
from perdure.evaluation.own_tools.subject import find_subjects, packages_of
from tests.evaluation.own_tools import planted_tools

pytestmark = pytest.mark.slow
CALLS = ["shop_sound orders=[3,1]"]
MODULES = [planted_tools.__name__]
Examine = Callable[[str], ToolVerdict]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    subjects = find_subjects(CALLS, MODULES)
    settings = ProcessSettings(packages=packages_of(subjects))
    folder = tmp_path_factory.mktemp("tools")
    with laboratory(MODULES, folder, settings, environment={}, every=40) as made:
        yield made


@pytest.fixture
def verdict(bench: Laboratory) -> Examine:
    subjects = {one.name: one for one in find_subjects(CALLS, MODULES)}
    return lambda name: examine(bench, subjects[name])


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("shop_wrong_rule", "wrong rule"),
        ("shop_lying_probe", "the probe lies"),
        ("shop_fragile_undo", "the undo is not idempotent"),
        ("shop_no_key", "the key is not sent"),
        ("shop_wide_safe_errors", "safe_errors too wide"),
        ("shop_effect_in_a_step", "an effect outside the tool"),
        ("shop_two_effects", "two effects in one tool"),
        ("shop_effect_in_plain_code", "an effect in plain code"),
        ("shop_random_order_number", "time or randomness outside steps"),
        ("shop_unsorted_orders", "the order changes between runs"),
    ],
)
def test_a_planted_mistake_is_found_under_its_name(verdict: Examine, name: str, mistake: str) -> None:
    found = verdict(name)
    assert [one.mistake for one in found.findings] == [mistake], found
    assert found.verdict == "wrong"
    assert found.kills > 0


@pytest.mark.parametrize("name", ["shop_good_keyed", "shop_good_undo", "shop_good_escalate", "shop_sound"])
def test_a_sound_tool_is_correct_after_every_kill(verdict: Examine, name: str) -> None:
    found = verdict(name)
    assert (found.verdict, found.findings) == ("correct", []), found
    assert (found.kills > 0, found.faults) == (True, 4)


def test_a_tool_that_hides_an_error_is_found(verdict: Examine) -> None:
    assert [one.mistake for one in verdict("shop_swallowed_error").findings] == ["an error is not raised"]


def test_a_key_that_the_service_ignores_is_a_wrong_rule(bench: Laboratory) -> None:
    bench.honours_keys = False
    try:
        [keyed] = [one for one in find_subjects(CALLS, MODULES) if one.name == "shop_good_keyed"]
        found = examine(bench, keyed)
    finally:
        bench.honours_keys = True
    assert [one.mistake for one in found.findings] == ["wrong rule"]
    assert "the service ignores keys" in found.findings[0].seen


def test_a_connection_beyond_this_machine_is_refused(verdict: Examine) -> None:
    found = verdict("shop_far_away")
    assert found.verdict == "not run"
    assert "allow it with --allow shop.example" in found.reason


def test_a_tool_that_leaves_nothing_outside_is_not_called_correct(verdict: Examine) -> None:
    found = verdict("shop_silent")
    assert found.verdict == "not observed"
    assert "--env" in found.reason


def test_a_tool_that_always_fails_is_not_run_with_its_error(verdict: Examine) -> None:
    found = verdict("shop_broken")
    assert found.verdict == "not run"
    assert "the shop is closed" in found.reason


def test_the_users_own_probe_replaces_the_sink(tmp_path: Path) -> None:
    subjects = {one.name: one for one in find_subjects(CALLS, MODULES)}
    settings = ProcessSettings(packages=packages_of(list(subjects.values())), observe=f"{MODULES[0]}:shelf")
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "earlier").touch()
    environment = {"SHOP_SHELF": str(shelf)}
    with laboratory(MODULES, tmp_path / "lab", settings, environment=environment, every=30) as made:
        sound, wrong = (examine(made, subjects[name]) for name in ("shop_shelf_escalate", "shop_shelf_pure"))
    assert (sound.verdict, sound.findings) == ("correct", [])
    assert [one.mistake for one in wrong.findings] == ["wrong rule"]


def test_a_setting_that_names_another_machine_is_refused(tmp_path: Path) -> None:
    far = {"SHOP_URL": "https://shop.example/orders"}
    with (
        pytest.raises(ConfigError, match=r"SHOP_URL names shop\.example") as refused,
        laboratory(MODULES, tmp_path, ProcessSettings(), environment=far),
    ):
        pass
    assert "--allow shop.example" in str(refused.value.hint)


def test_a_verdict_is_json_with_stable_names() -> None:
    made = ToolVerdict(name="charge", kind="tool", verdict="wrong", findings=[Mistake("wrong rule", "seen", "change")])
    shown = msgspec.to_builtins(made)
    assert set(shown) == {"name", "kind", "rule", "kills", "faults", "verdict", "reason", "findings", "notes"}
    assert set(shown["findings"][0]) == {"mistake", "seen", "change"}
