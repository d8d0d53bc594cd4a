"""`perdure resume`: what recovery does with each unsettled effect, and then doing it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

from perdure.agent.history.catch_up import unfinished_work
from perdure.cli.commands.send import send_message
from perdure.cli.live.local_run import check_not_sealed, run_locally
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import describe_holder, run_with_runtime
from perdure.cli.text.grid import grid
from perdure.cli.text.plain import safe
from perdure.cli.text.waits import resume_line
from perdure.clock import format_time, span
from perdure.control.session_list import newest_unfinished
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.errors import ConfigError
from perdure.runtime.recovery.plan import RecoveryStep
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.move import StoreTransaction
from perdure.store.moves import session

HEADINGS = ("effect", "tool", "state", "attempts", "what is done", "not before")
ACTIONS = {"ask": "ask a person", "probe": "ask its probe"}
WIDE = 150  # columns from which the reason is in the same line


@command
@click.argument("id", required=False)
@click.argument("message", required=False, metavar='["MESSAGE"]')
@click.option("-p", "--prompt", metavar="TEXT", help="The message; needed for a message of one word after --last.")
@click.option("--last", is_flag=True, help="The most recently active session that has not ended; first of this folder.")
@click.option("--plan", is_flag=True, help="Only show what would be done.")
@click.option("--model", metavar="NAME", help="The model that answers from now on: anthropic:NAME, openai:NAME.")
@click.option("--unpin", is_flag=True, help="Let workers of any version run it from now on.")
@by_option
def resume(
    shell: Shell, id: str | None, message: str | None, prompt: str | None, last: bool, plan: bool, model: str | None,
    unpin: bool,
) -> int:  # fmt: skip
    """Resume a session after a crash, a pause or an answer, or with your next message.

    First shows what recovery does with each unsettled effect, and why. Ends a pause. A message is sent before the
    session runs; @path in it attaches that text file, and so does a pipe. Exits with 3 if the session needs a person,
    and shows what to type; with 4 if another process holds the session.
    """
    id, text = find_message(shell, id, message, prompt, last=last)
    check_plan_alone(plan, text)
    shell.load()
    was_free = False

    async def find(runtime: Runtime) -> tuple[SessionRecord, bool]:
        found, is_held, lines = await runtime.store.read(_find, shell, id)
        shell.echo(*lines)
        return found, is_held

    async def show_plan(runtime: Runtime) -> int:
        found, is_held = await find(runtime)
        if is_held:
            shell.echo("If that process died now:")
        echo_plan(shell, found, await runtime.recovery_plan(found.uid), runtime.store.clock.now())
        return 0

    async def begin(runtime: Runtime) -> SessionView:
        nonlocal was_free
        found, is_held = await find(runtime)
        was_free = not is_held
        if not shell.json and found.status not in TERMINAL and not is_held:
            shell.echo(*plan_lines(shell, await runtime.recovery_plan(found.uid), runtime.store.clock.now()))
        await _edit(runtime, found.uid, shell.by, model=model, unpin=unpin)
        if text is not None:
            await send_message(shell, runtime, found, text, with_pipe=True)
        return await runtime.resume(found.uid)

    return run_with_runtime(shell, show_plan) if plan else run_locally(shell, begin, was_free=lambda: was_free)


async def _edit(runtime: Runtime, uid: str, by: str, *, model: str | None, unpin: bool) -> None:
    """Change the session as the options say, before it runs."""
    if unpin:
        await runtime.unpin(uid, by=by)
    if model is not None:
        await runtime.set_model(uid, model, by=by)


def check_plan_alone(plan: bool, text: str | None) -> None:
    """Refuse a message together with `--plan`."""
    if plan and text is not None:
        raise ConfigError(
            "--plan only shows what would be done, so it takes no message.", hint="Leave one of them out."
        )


def find_message(
    shell: Shell, id: str | None, message: str | None, prompt: str | None, *, last: bool
) -> tuple[str | None, str | None]:
    """The id of the session, and the message. One word after `--last` is refused: it is probably meant as an id."""
    if last and (message is not None or (id is not None and len(id.split()) == 1)):
        raise ConfigError(
            "Give the id of a session, or --last.", hint="After --last, give a message of one word with -p."
        )
    if not last and id is None:
        raise ConfigError("Give the id of a session, or --last.", hint=f"`{shell.suggest('ls')}` lists the sessions.")
    id, message = (None, id) if last else (id, message)
    if prompt is not None and message is not None:
        raise ConfigError("The message is given twice.", hint="Give it with -p, or as an argument.")
    return id, message if prompt is None else prompt


def _find(tx: StoreTransaction, shell: Shell, id: str | None) -> tuple[SessionRecord, bool, list[str]]:
    """The session, whether a process that may be alive holds it, and lines about its holder and what that left."""
    found = newest_unfinished(tx, os.getcwd()) if id is None else session.find(tx, id)
    check_not_sealed(tx, found)
    if shell.json or found.lease_holder is None:
        return found, False, []
    is_held, holder = describe_holder(tx, shell, found)
    left = [] if is_held or found.status in TERMINAL else unfinished_work(tx, found.uid)
    lines = [*([holder] if holder else []), *(["It left unfinished:"] if left else [])]
    return found, is_held, lines + [f"  {safe(one)}" for one in left]


def echo_plan(shell: Shell, found: SessionRecord, planned: list[RecoveryStep], now: int) -> None:
    """Print what would be done."""
    if shell.json:
        for one in planned:
            shell.echo_json(one)
    elif found.status in TERMINAL:
        shell.echo(f"Session {found.id} is {found.status}; there is nothing to do.")
    else:
        shell.echo(*plan_lines(shell, planned, now), "")
        shell.echo(f"Nothing was done. Run `{resume_line(shell, found)}` to do it.")


def plan_lines(shell: Shell, planned: list[RecoveryStep], now: int) -> Iterator[str]:
    """The recovery table. On a narrow terminal the reasons are below it."""
    if not planned:
        yield "All effects are settled. The program continues from its records."
        return
    rows = [_row(one, now) for one in planned]
    reasons = [safe(one.why) for one in planned]
    if shell.width >= WIDE:
        yield from grid((*HEADINGS, "why"), [[*row, why] for row, why in zip(rows, reasons, strict=True)], width=WIDE)
    else:
        yield from grid(HEADINGS, rows, width=shell.width)
        yield ""
        yield from (f"{row[0]}: {why}" for row, why in zip(rows, reasons, strict=True))


def _row(one: RecoveryStep, now: int) -> list[str]:
    later = one.not_before is not None and one.not_before > now
    when = f"{format_time(one.not_before or 0)} (in {span((one.not_before or 0) - now)})" if later else "now"
    action = safe(ACTIONS.get(one.action, one.action))
    return [safe(one.effect_id), safe(one.tool), one.state, str(one.attempts), action, when]
