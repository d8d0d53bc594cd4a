"""`perdure schedules`: sessions that are started at certain times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand

if TYPE_CHECKING:
    from perdure.domain.schedule import Schedule

HEADINGS = ("schedule", "when~", "next", "last", "starts~", "state~")
COMING = 5  # ticks that `show` lists
SESSIONS = 5


@command
def ls(shell: Shell) -> None:
    """List schedules with their next tick, and what the last one did."""
    from perdure.cli.store_access import read_store
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import call, safe
    from perdure.cli.text.schedules import describe_last, describe_next, describe_state, describe_times
    from perdure.store.moves import schedule

    with read_store(shell) as tx:
        found, now = schedule.listing(tx), tx.now
    if shell.json:
        for one in found:
            shell.echo_json(one.to_dict())
        return
    if not found:
        shell.echo("There are no schedules.")
        return
    rows = [
        [
            safe(one.name), describe_times(one), describe_next(one, now), describe_last(one, now),
            call(one.program, one.arguments, 60), describe_state(one, now),
        ]
        for one in found
    ]  # fmt: skip
    shell.echo(*grid(HEADINGS, rows, width=shell.width))


@command
@click.argument("name")
def show(shell: Shell, name: str) -> None:
    """Show a schedule: its next five ticks, what the last ticks did, and its newest sessions."""
    from perdure.cli.store_access import read_store
    from perdure.cli.text.plain import call, safe, value
    from perdure.cli.text.schedules import describe_state, describe_times, local_time
    from perdure.clock import format_time
    from perdure.domain.schedule_times import coming_ticks
    from perdure.store.moves import schedule

    with read_store(shell) as tx:
        found, now = schedule.get(tx, name), tx.now
        sessions = schedule.newest_sessions(tx, found.uid, limit=SESSIONS)
    ticks = coming_ticks(found, now, COMING)
    if shell.json:
        shown = [{"id": one.id, "status": one.status, "scheduled_at": one.scheduled_at} for one in sessions]
        shell.echo_json(found.to_dict() | {"ticks": ticks, "sessions": shown})
        return
    shell.echo(f"{safe(found.name)}: {describe_times(found)}", f"starts    {call(found.program, found.arguments)}")
    if found.options:
        shell.echo(f"options   {value(found.options)}")
    shell.echo(f"overlap   {found.overlap}", f"catch up  {found.catch_up}")
    shell.echo(f"changed   {format_time(found.updated_at)} by {safe(found.updated_by)}, version {found.version}")
    if state := describe_state(found, now):
        shell.echo(f"state     {state}")
    for place, tick in enumerate(ticks):
        shell.echo(f"{'next' if place == 0 else '':10}{format_time(tick)}{local_time(tick, found)}")
    for place, one in enumerate(sessions):
        shell.echo(f"{'sessions' if place == 0 else '':10}{safe(one.id)}  {one.status}")


@command
@click.argument("name")
@click.argument("what", required=False, metavar='[PROGRAM|AGENT|"PROMPT"]')
@click.argument("arguments", nargs=-1, metavar='[KEY=VALUE|"PROMPT"]...')
@click.option("--cron", metavar="FIELDS", help='When it ticks: "30 8 * * MON-FRI".')
@click.option("--every", metavar="DURATION", help='Or how often: "10m", "24h".')
@click.option("--tz", "timezone", default="UTC", show_default=True, metavar="ZONE", help="The time zone of --cron.")
@click.option("--jitter", default="0s", metavar="DURATION", help="Start each session later by up to this time.")
@click.option(
    "--overlap",
    type=click.Choice(["skip", "queue", "cancel"]),
    default="skip",
    show_default=True,
    help="While a session has not ended, skip the tick, queue its session, or cancel that session.",
)
@click.option(
    "--catch-up",
    type=click.Choice(["all", "last", "none"]),
    default="last",
    show_default=True,
    help="Which missed ticks are made up.",
)
@click.option("-p", "--prompt", metavar="TEXT", help="The prompt; needed for a prompt of one word.")
@click.option("--model", metavar="NAME", help="The model of a prompt: anthropic:NAME, openai:NAME.")
@click.option("--instructions", metavar="TEXT", help="Instructions to the model, before the prompt.")
@click.option("--tool", "tools", metavar="NAME", multiple=True, help="A tool that it may use.")
@click.option("--allow", metavar="TOOL", multiple=True, help="Run this tool without asking.")
@click.option("--network", is_flag=True, help="Give its commands access to the network.")
@click.option("--unsandboxed", is_flag=True, help="Run its commands even if no sandbox is available.")
@click.option("--queue", default="default", show_default=True, metavar="NAME", help="The queue of its sessions.")
@click.option(
    "--priority", type=click.IntRange(-1000, 1000), default=0, show_default=True,
    help="Workers run sessions with a higher priority first.",
)  # fmt: skip
@click.option("--key", metavar="TEXT", help="The key of its sessions, for limits of the queue.")
@click.option("--retries", type=click.IntRange(0, 1000), metavar="N", help="How often a failed session is retried.")
@click.option("--timeout", metavar="DURATION", help="Cancel a session that has not ended after this time.")
@click.option("--repo", metavar="DIR", help="The repository that its sessions work on.")
@click.option("--owner", metavar="NAME", help="The owner of its sessions (default: the user who adds it).")
@click.option("--title", metavar="TEXT", help="A title for people.")
@by_option
def add(
    shell: Shell, name: str, what: str | None, arguments: tuple[str, ...], prompt: str | None, repo: str | None,
    owner: str | None, title: str | None, **options: Any,
) -> None:  # fmt: skip
    """Add a schedule, or change the one of this name.

    It starts a session of a program or of an agent, given as for `perdure run`: perdure schedules add nightly report
    --cron "0 3 * * *" --tz Europe/Berlin --app MODULE. The session of an agent ends with its first answer. Workers or
    `perdure serve` start and run the sessions; they need the same --app.

    A change begins a new version: ticks before it are not made up any more.
    """
    from perdure.cli.commands.run import check_options, find_prompt
    from perdure.cli.options.start import owner_of_start
    from perdure.cli.program_arguments import bind_program, find_program
    from perdure.cli.store_access import run_with_runtime
    from perdure.errors import ConfigError

    shell.load()
    check_options(None, repo)
    if what is None and prompt is None:  # it is not read from standard input
        raise ConfigError(
            "The program of the schedule is missing.", hint="Type `perdure schedules add NAME PROGRAM --every 1h`."
        )
    agent = {key: options.pop(key) for key in ("model", "instructions", "tools", "allow", "network", "unsandboxed")}
    asked = find_prompt(what, arguments, prompt)
    if asked is None:
        bound = bind_program(find_program(what or ""), arguments)
    else:
        bound, repo, title = _bind_prompt(shell, asked, agent, repo or ".", title)
    about = options | {"repository": repo, "title": title, "owner": owner_of_start(shell, owner), "by": shell.by}
    made = run_with_runtime(shell, lambda runtime: runtime.add_schedule(name, bound, **about), create=True)
    _report(shell, made, "is added" if made.version == 1 else f"is at version {made.version}")


def _bind_prompt(shell: Shell, asked: Any, agent: dict[str, Any], repo: str, title: str | None) -> tuple[Any, str, str]:
    from pathlib import Path

    from perdure.cli.agent_prompt import bind_agent
    from perdure.domain.text import content_text

    given = agent | {key: list(agent[key]) for key in ("tools", "allow")}
    bound = bind_agent(shell, asked.agent, asked.text, Path(repo), once=True, **given)
    words = (content_text(bound.arguments["prompt"]) or "").strip()
    return bound, repo, title or words.splitlines()[0][:80]


@command
@click.argument("name")
@by_option
def pause(shell: Shell, name: str) -> None:
    """Start no sessions of a schedule until it is resumed."""
    from perdure.cli.store_access import run_with_runtime

    _report(shell, run_with_runtime(shell, lambda runtime: runtime.pause_schedule(name, by=shell.by)), "is paused")


@command
@click.argument("name")
@by_option
def resume(shell: Shell, name: str) -> None:
    """Resume a paused schedule. --catch-up decides about the ticks of the pause."""
    from perdure.cli.store_access import run_with_runtime

    _report(shell, run_with_runtime(shell, lambda runtime: runtime.resume_schedule(name, by=shell.by)), "is resumed")


@command
@click.argument("name")
@by_option
def rm(shell: Shell, name: str) -> None:
    """Remove a schedule. Its sessions stay, and its name can be used again."""
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe

    was = run_with_runtime(shell, lambda runtime: runtime.remove_schedule(name, by=shell.by))
    if shell.json:
        shell.echo_json(was.to_dict())
    else:
        shell.echo(f"The schedule {safe(was.name)} is removed.")


@command
@click.argument("name")
@click.option("--since", required=True, metavar="TIME", help="The first time: 2026-11-01, or 2026-11-01T08:30.")
@click.option("--until", required=True, metavar="TIME", help="The time before which it ends.")
def backfill(shell: Shell, name: str, since: str, until: str) -> None:
    """Start a session for each past tick that has none, up to 1,000.

    Times without an offset are local times of the schedule. It may be repeated: no tick gets a second session.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import count, safe

    started = run_with_runtime(shell, lambda runtime: runtime.backfill(name, since, until))
    if shell.json:
        shell.echo_json({"name": name, "sessions": started})
        return
    shell.echo(*map(safe, started))
    shell.note(f"{count(len(started), 'session')} started.")


@command
@click.argument("name")
@by_option
def run(shell: Shell, name: str) -> None:
    """Start a session of a schedule now, beside its ticks. Its --overlap holds."""
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe

    view = run_with_runtime(shell, lambda runtime: runtime.trigger_schedule(name, by=shell.by))
    if shell.json:
        shell.echo_json({"id": view.id, "uid": view.uid, "status": view.status})
    else:
        shell.echo(safe(view.id))


def _report(shell: Shell, made: Schedule, said: str) -> None:
    from perdure.cli.text.plain import safe
    from perdure.clock import format_time

    if shell.json:
        shell.echo_json(made.to_dict())
        return
    later = (
        "" if made.paused_at or made.next_due is None else f" Its next session starts at {format_time(made.next_due)}."
    )
    shell.echo(f"The schedule {safe(made.name)} {said}.{later}")


schedules = ListingCommand(
    ls,
    {
        "ls": ls, "add": add, "show": show, "pause": pause, "resume": resume, "rm": rm, "backfill": backfill,
        "run": run,
    },
)  # fmt: skip
schedules.name = "schedules"
