"""`perdure show`: one session, now or at one of its events, and what happens next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from perdure.agent import reach
from perdure.cli.shell import Shell, command
from perdure.cli.store_access import lost_sessions, read_logged, transcript_of
from perdure.cli.text import waits
from perdure.cli.text.approvals import approval_json, voters_and_reasons
from perdure.cli.text.effects import HEADINGS, effect_cells
from perdure.cli.text.grid import grid
from perdure.cli.text.plain import arguments, call, error, safe, short, value
from perdure.cli.text.sentence import line, tools_of
from perdure.cli.text.waits import resume_line, session_name
from perdure.clock import span
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.domain.state import SessionState
from perdure.errors import ConfigError
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, effect, event, session, wait
from perdure.store.transfer.seal import refusal

DEFAULT = "default"
EFFECTS = 20


@command
@click.argument("id")
@click.option(
    "--last", type=click.IntRange(0, 100_000), default=10, show_default=True, help="Number of events to show."
)
@click.option("--at", type=click.IntRange(1), metavar="N", help="Show the session as it was after event N.")
@click.option("--follow", is_flag=True, help="Print each new event, until the session has ended.")
@click.option(
    "--effect", "effect_id", metavar="EFFECT", help="Only this effect, with its attempts, result and whole output."
)
def show(shell: Shell, id: str, last: int, at: int | None, follow: bool, effect_id: str | None) -> None:
    """Show a session: its state, what it waits for and what to type, its effects, its events.

    With --at, everything is shown as it was after that event. With --json and --follow, events are printed one per
    line. At a terminal, --follow shows the live text of the model in the last row.
    """
    if follow and at is not None:
        raise ConfigError("--at and --follow exclude each other.", hint="Give one of them.")
    if effect_id is not None:
        from perdure.cli.commands.effect_details import show_effect  # reads snapshots, which no other part needs

        if follow or at is not None:
            raise ConfigError("--effect shows an effect as it is now.", hint="Leave --at and --follow out.")
        show_effect(shell, effect_id, id)
        return
    with read_logged(shell, "transcript", transcript_of(id)) as tx:
        found = session.find(tx, id)
        events = event.last(tx, found.uid, limit=last, through=at or found.cursor)
        if at is not None:
            _show_past(shell, tx, event.state_at(tx, found.uid, at), events)
        elif shell.json and follow:
            for one in events:
                shell.echo_json(one)
        elif shell.json:
            _echo_json(shell, tx, found, events)
        else:
            shell.echo(*_lines(shell, tx, found, events))
    if follow:
        from perdure.cli.live.event_log import follow_log

        follow_log(shell, found)


def _echo_json(shell: Shell, tx: StoreTransaction, found: SessionRecord, events: list[Event]) -> None:

    shell.echo_json(
        {
            "session": found,
            "waits": wait.open_of_session(tx, found.uid),
            "effects": [one.to_dict() | {"outside": reach.of(tx, one)} for one in effect.of_session(tx, found.uid)],
            "events": events,
            "approvals": [approval_json(shell, tx, one) for one in approval.listing(tx, uid=found.uid)],
        }
    )


def _lines(shell: Shell, tx: StoreTransaction, found: SessionRecord, events: list[Event]) -> Iterator[str]:

    yield from header(tx, found.to_dict())
    here = found.status not in TERMINAL and found.sealed_at is None
    asked = waits.describe_waits(tx, found) if here else []
    if asked:
        yield from ("", "waits", *waits.wait_lines(shell, asked, tx.now))
    newest = effect.listing(tx, uid=found.uid, limit=EFFECTS + 1)
    unsettled = [one for one in effect.unsettled(tx, found.uid) if one not in newest[:EFFECTS]]
    if newest:
        rows = [effect_cells(tx, one) for one in [*unsettled, *reversed(newest[:EFFECTS])]]
        yield from _effects(shell, rows, more=len(newest) > EFFECTS, id=found.id)
    yield from _approvals(tx, found)
    yield from _events(tx, found.uid, events)
    if found.sealed_at is not None and found.status not in TERMINAL:
        sealed = refusal(tx, found.uid, found.id, found.sealed_at)
        yield from ("", sealed.message, sealed.hint)
        return
    lapsed = found.status == "running" and (found.lease_until or 0) < tx.now
    if lost_sessions(tx, shell, [found]):
        yield from ("", f"The process of {safe(found.id)} has died. Run `{resume_line(shell, found)}` to continue.")
    elif lapsed or (found.status in ("ready", "waiting") and not any(one.for_a_person for one in asked)):
        yield from ("", f"Run `{resume_line(shell, found)}` to continue it here.")
    elif found.status == "running":
        yield from ("", f"Run `{shell.suggest('show', found.id, '--follow')}` to watch it.")


def _show_past(shell: Shell, tx: StoreTransaction, state: SessionState, events: list[Event]) -> None:
    """The session as its log describes it after an event."""
    if shell.json:
        shell.echo_json(state)
        return
    shell.echo(*header(tx, state.session), "", f"This is the session as it was after event {state.number}.")
    waits = [one for one in state.waits.values() if one.get("resolved_at") is None]
    if waits:
        shell.echo("", "waited for", *(f"  {one['kind']} {safe(one['id'])}: {value(one['detail'])}" for one in waits))
    rows = [
        [
            safe(one["id"]),
            safe(one["tool"]),
            one["state"],
            "",
            "",
            "",
            arguments(one["intent"]),
            short(one.get("reference") or ""),
        ]
        for one in state.effects.values()
    ]
    if rows:
        shell.echo(*_effects(shell, rows[-EFFECTS:], more=len(rows) > EFFECTS, id=state.session["id"]))
    shell.echo(*_events(tx, state.session["uid"], events))


def _limits(tx: StoreTransaction, row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Its queue if it is not the usual one, its retries and its deadline."""
    key = f", key {safe(row['concurrency_key'])}" if row.get("concurrency_key") else ""
    if row.get("queue", DEFAULT) != DEFAULT or row.get("priority") or key:
        yield "queue", f"{safe(row['queue'])}, priority {row['priority']}{key}"
    if row.get("max_retries"):
        yield "retries", f"{row.get('retries') or 0} of {row['max_retries']}"
    if row.get("deadline_at") is not None and row["status"] not in TERMINAL:
        yield "deadline", f"in {span(max(0, row['deadline_at'] - tx.now))}"


def header(tx: StoreTransaction, row: dict[str, Any]) -> Iterator[str]:
    """The properties of the session, one per line."""
    yield f"{click.style('session', dim=True)}     {click.style(safe(row['id']), bold=True)}"
    lines = [("program", call(row["program"], row["arguments"])), ("status", _status(tx, row))]
    lines += [(name, safe(str(row[name]))) for name in ("title", "owner", "repository") if row.get(name)]
    if row.get("code_version") and (row.get("pinned_at") or not row["code_version"].startswith("files-")):
        lines += [("version", safe(row["code_version"]) + (", pinned" if row.get("pinned_at") else ""))]
    lines += _origin(tx, row)
    lines += _limits(tx, row)
    lines += _end(row)
    for name, text in lines:
        yield f"{click.style(name.ljust(10), dim=True)}  {text}"
    raised = row["error"].get("traceback") if isinstance(row.get("error"), dict) else None
    if raised:
        yield from ("", *(safe(line) for line in str(raised).splitlines()))


def _status(tx: StoreTransaction, row: dict[str, Any]) -> str:

    text = f"{row['status']}, {row['cursor']} events, created {span(tx.now - row['created_at'])} ago"
    text += f", last active {span(tx.now - row['updated_at'])} ago"
    if row.get("lease_holder"):
        left = (row.get("lease_until") or 0) - tx.now
        lease = f"its lease ends in {span(left)}" if left >= 0 else f"its lease expired {span(-left)} ago"
        text += f"; held by {safe(row['lease_holder'])}, {lease}"
    if row.get("cancel_requested_at") and row["status"] != "cancelled":
        text += "; cancel requested"
    if row.get("pause_requested_at") and row["status"] not in ("done", "failed", "cancelled"):
        text += "; pause requested"
    if row.get("sealed_at"):
        text += "; sealed"
    return text


def _origin(tx: StoreTransaction, row: dict[str, Any]) -> Iterator[tuple[str, str]]:

    if row.get("forked_from"):
        name = session_name(tx, row["forked_from"])
        yield (
            "branch of",
            f"{name} at event {row['forked_at']}; effects that {name} planned after that are not inherited",
        )
    if row.get("parent_uid"):
        yield "child of", session_name(tx, row["parent_uid"])
    if row.get("crash_count"):
        yield "crashes", str(row["crash_count"])


def _end(row: dict[str, Any]) -> Iterator[tuple[str, str]]:

    if row["status"] == "done":
        yield "result", value(row.get("result"))
    elif row.get("error") is not None:
        yield "error", error(row["error"])


def _effects(shell: Shell, rows: list[list[str]], *, more: bool, id: str) -> Iterator[str]:

    yield from ("", *grid(HEADINGS, rows, width=shell.width))
    if more:
        everything = shell.suggest("effects", "--session", id, "--limit", "1000")
        yield f"These are the last {EFFECTS} effects and all unsettled ones; `{everything}` lists more."


def _approvals(tx: StoreTransaction, found: SessionRecord) -> Iterator[str]:
    """The decided approvals of this session: by whom and why."""
    decided = [one for one in approval.listing(tx, uid=found.uid) if one.decided_at is not None]
    if not decided:
        return
    yield from ("", "approvals")
    for one in decided[-EFFECTS:]:
        voters, why = voters_and_reasons(tx, one)
        who = f" by {voters}" if voters else ""
        text = (
            f"  {safe(one.id)}, gate {safe(one.gate)}: {one.decision}{who}, {span(tx.now - (one.decided_at or 0))} ago"
        )
        yield text + (f": {short(why)}" if why else "")


def _events(tx: StoreTransaction, uid: str, events: list[Event]) -> Iterator[str]:

    if not events:
        return
    tools = tools_of(tx, uid, events)
    yield from ("", " event  time")
    if events[0].number > 1:
        yield f"     …  {events[0].number - 1} earlier events; use --last to show more"
    yield from (line(one, tools) for one in events)
