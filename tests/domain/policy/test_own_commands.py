"""What an agent may do with `perdure` itself, judged for every command that there is."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from perdure.cli import COMMANDS, HIDDEN, perdure
from perdure.cli.subcommands import ListingCommand
from perdure.domain.policy import PROFILES, shipped
from perdure.store.audit.questions import QUESTIONS
from tests.domain.policy.test_matrix import answer

READING = {
    "ls", "show", "brief", "diff", "approvals", "effects", "tasks", "decisions", "facts", "orders", "orders ls",
    "artifacts", "artifacts ls", "artifacts cat", "audit", "audit verify", "verify", "tree", "top", "queues",
    "queues ls", "queues latency", "schedules", "schedules ls", "schedules show", "limits", "limits ls", "doctor",
    "principals",
    "principals ls", "notifications", "notifications ls", "notifications channels", "token", "token ls", "policy",
    "policy show", "policy diff", "policy check", "policy explain", "policy history", "exemptions", "exemptions ls",
    "exemptions show", "roles", "restores", "keys", "completion", *(f"audit {name}" for name in QUESTIONS),
}  # fmt: skip
BARE = {"roles", "restores", "keys"}  # they change something if a word or an option follows


def every_command() -> Iterator[str]:
    """The names of all commands and subcommands, from the command line itself."""
    context = click.Context(perdure)
    for name in (*COMMANDS, *HIDDEN):
        found = perdure.get_command(context, name)
        yield name
        if isinstance(found, ListingCommand):
            yield from (f"{name} {one}" for one in found.subcommands)


@pytest.mark.parametrize("profile", PROFILES)
def test_only_reading_commands_are_not_denied(profile: str) -> None:
    names = list(every_command())
    assert len(names) > 100
    found = {name for name in names if answer(profile, f"perdure {name}") != "deny"}
    assert found == READING
    assert {answer(profile, f"perdure {name}") for name in READING} == {"allow"}
    assert {answer(profile, f"perdure {name} --help") for name in names} == {"allow"}


@pytest.mark.parametrize("profile", PROFILES)
def test_options_and_wrappers_do_not_hide_a_command(profile: str) -> None:
    acting = [name for name in every_command() if name not in READING]
    forms = (
        "perdure {0} x", "perdure --json {0} x", "perdure {1} --json {2} x", "perdure --store s {0}",
        "uv run --with perdure perdure {0}", "pipx run perdure {0}", "pipx run --spec x perdure==1.0 {0}",
        "nix run nixpkgs#perdure -- {0}", "nix run perdure {0}", "uvx perdure@latest {0}", "uv tool run perdure {0}",
        "uv --quiet run perdure {0}", "uvx --from perdure perdure {0}", "uv run -m perdure {0}",
        "python -Im perdure {0}", "python3 -m perdure {0}", "python -mperdure {0}", "python -X dev -m perdure {0}",
        "python -m perdure.__main__ {0}", "conda run -n x perdure {0}", ".venv/bin/perdure {0}", "env perdure {0}",
        "bash -c 'perdure {0}'", "PERDURE_STORE=s perdure {0}",
    )  # fmt: skip
    commands = {form.format(name, *f"{name} ".split(" ")) for form in forms for name in acting}
    assert {one: found for one in commands if (found := answer(profile, one)) != "deny"} == {}


@pytest.mark.parametrize(
    "command",
    [
        "perdure ls --app evil.py",
        "perdure ls --app=evil.py",
        "perdure ls --store https://example.com",
        "perdure ls > out",
        "./perdure ls",
        "perdure show *",
        "perdure facts s$EMPTY'et' k v",
        "perdure facts [s]et k v",
        "perdure facts s?t k v",
        "perdure {facts,set} k v",
        "perdure brief s --to ~/.bashrc",
        "perdure roles --apply",
        "perdure restores --release x",
        "perdure keys add x",
    ],
)
def test_a_reading_command_that_does_more_is_denied(command: str) -> None:
    assert answer("full", command) == "deny"


def test_the_reading_forms_are_the_same_where_they_are_allowed_and_excepted() -> None:
    rules = {one.name: one for one in shipped().rules}
    assert rules["reading-perdure"].conditions["command"] == rules["own-decisions"].exceptions["command"]
