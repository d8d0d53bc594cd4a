"""`perdure demo`: an agent is killed mid-task, resumed, approved, branched and moved; nothing is done twice.

start     a service: an HTTP server in its own process, with its own synced log; a repository with a failing test
run       `perdure run`: a scripted agent finds the bug, fixes it, commits, posts a comment
kill      SIGKILL by the demo, after the service has logged the comment and before Perdure could record it
plan      `perdure resume --plan`: what recovery will do
resume    `perdure resume`: the probe finds the comment; a push waits for a person, played by the demo
branch    `perdure fork`: another fix, in its own folder
move      `perdure export` and `import`: the session continues in a second store
count     at the service, in the repository and at the remote, which decides the exit code
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click

from perdure.agent.commands.sandbox import Level, available
from perdure.cli.demo.environment import DemoEnvironment
from perdure.cli.demo.fixtures import make_repository
from perdure.cli.demo.folder import own_folder
from perdure.cli.demo.narrator import Narrator
from perdure.cli.demo.scenario import Scenario
from perdure.cli.shell import Shell, command
from perdure.errors import ConfigError
from perdure.ids import new_name
from perdure.store.inspection.read_access import locate_store
from perdure.testing.sink import Sink


@command
@click.option(
    "--keep", metavar="DIR", type=click.Path(file_okay=False), help="Keep the repository and the stores in DIR."
)
def demo(shell: Shell, keep: str | None) -> int:
    """Kill an agent mid-task and resume it: nothing lost, nothing done twice. Needs no key and no server.

    The model is scripted; everything else is real. The demo uses its own SQLite store, or the one given with --store.
    """
    if shell.store_option == "memory:":
        raise ConfigError("A store in memory ends with its process, which this demo kills.", hint="Name another store.")
    with nullcontext(keep) if keep else own_folder() as name:
        folder = Path(name).absolute()
        if keep and folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty.", hint="Name a folder that is empty or does not exist.")
        folder.mkdir(parents=True, exist_ok=True)
        make_repository(folder)
        level = available()
        with Sink(folder / "service") as service:
            store = _absolute(shell.store_option)
            environment = DemoEnvironment(folder, service, store=store, sandboxed=level is not Level.NONE)
            scenario = Scenario(environment, new_name("fix") if shell.store_option else "fix")
            return Narrator(shell, scenario, str(level), folder if keep else None).run()


def _absolute(store: str | None) -> str | None:
    """The address in a form that is valid in another folder."""
    place = None if store is None else locate_store(store)
    return place.shown if place is not None and place.path is not None else store
