"""`perdure show`: one session, now or at one of its events, and what happens next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, command

if TYPE_CHECKING:
    from perdure.domain.event import Event
    from perdure.domain.session import SessionRecord
    from perdure.domain.state import SessionState
    from perdure.store.move import StoreTransaction

EFFECTS = 20


@command
@click.argument("id")
@click.option("--last", type=click.IntRange(0, 100_000), default=10, show_default=True, help="So many events.")
@click.option("--at", type=click.IntRange(1), metavar="N", help="As it was after event N.")
@click.option("--follow", is_flag=True, help="Go on with each new event, until the session has ended.")
@click.option("--effect", metavar="EFFECT", help="Only this effect, with its attempts, result and whole output.")
def show(shell: Shell, id: str, last: int, at: int | None, follow: bool, effect: str | None) -> None:
    """Show a session: its state, what it waits for and what to type, its effects, its events.

    With --at, everything is shown as it was after that event. With --json and --follow, events come one a line. At a
    terminal, --follow has what a model is just saying in the last row.
    """
    from perdure.cli.store_access import read_store
    from perdure.errors import ConfigError
    from perdure.store.moves import event, session

    if follow and at is not None:
        raise ConfigError("--at looks back and --follow looks forward.", hint="Give one of them.")
    if effect is not None:
        from perdure.cli.commands.effect_details import show_effect

        if follow or at is not None:
            raise ConfigError("--effect shows an effect as it is now.", hint="Leave --at and --follow out.")
        show_effect(shell, effect, id)
        return
    with read_store(shell) as tx:
        found = session.find(tx, id)
        events = event.last(tx, found.uid, limit=last, through=at or found.cursor)
        if at is not None:
            _past(shell, tx, event.state_at(tx, found.uid, at), events)
        elif shell.json and follow:
            for one in events:
                shell.echo_json(one)
        elif shell.json:
            _emit(shell, tx, found, events)
        else:
            shell.echo(*_present(shell, tx, found, events))
    if follow:
        from perdure.cli.live.event_log import follow_log

        follow_log(shell, found)


def _emit(shell: Shell, tx: StoreTransaction, found: SessionRecord, events: list[Event]) -> None:
    from perdure.agent import reach
    from perdure.cli.commands.approvals import with_votes
    from perdure.store.moves import approval, effect, wait

    shell.echo_json(
        {
            "session": found,
            "waits": wait.open_of_session(tx, found.uid),
            "effects": [one.to_dict() | {"outside": reach.of(tx, one)} for one in effect.of_session(tx, found.uid)],
            "events": events,
            "approvals": [with_votes(shell, tx, one) for one in approval.listing(tx, uid=found.uid)],
        }
    )


def _present(shell: Shell, tx: StoreTransaction, found: SessionRecord, events: list[Event]) -> Iterator[str]:
    from perdure.cli.commands.effects import cells
    from perdure.cli.text import waits
    from perdure.domain.session import TERMINAL
    from perdure.store.moves import effect
    from perdure.store.transfer.seal import refusal

    yield from header(tx, found.to_dict())
    here = found.status not in TERMINAL and found.sealed_at is None
    asked = waits.describe_waits(tx, found) if here else []
    if asked:
        yield from ("", "waits", *waits.lines(shell, asked, tx.now))
    newest = effect.listing(tx, uid=found.uid, limit=EFFECTS + 1)
    unsettled = [one for one in effect.unsettled(tx, found.uid) if one not in newest[:EFFECTS]]
    if newest:
        rows = [cells(tx, one) for one in [*unsettled, *reversed(newest[:EFFECTS])]]
        yield from _effects(shell, rows, more=len(newest) > EFFECTS, id=found.id)
    yield from _approvals(tx, found)
    yield from _events(tx, found.uid, events)
    if found.sealed_at is not None and found.status not in TERMINAL:
        told = refusal(tx, found.uid, found.id, found.sealed_at)
        yield from ("", told.message, told.hint)
        return
    lapsed = found.status == "running" and (found.lease_until or 0) < tx.now
    if lapsed or (found.status in ("ready", "waiting") and not any(one.for_a_person for one in asked)):
        yield from ("", f"`{shell.suggest('resume', found.id, app=True)}` lets it go on here.")
    elif found.status == "running":
        yield from ("", f"`{shell.suggest('show', found.id, '--follow')}` watches it.")


def _past(shell: Shell, tx: StoreTransaction, state: SessionState, events: list[Event]) -> None:
    """The session as its log says it was."""
    from perdure.cli.text.plain import arguments, safe, short, value

    if shell.json:
        shell.echo_json(state)
        return
    shell.echo(*header(tx, state.session), "", f"This is how it was after event {state.number}.")
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


def header(tx: StoreTransaction, row: dict[str, Any]) -> Iterator[str]:
    """What the session is, a thing a line."""
    from perdure.cli.text.plain import call, safe

    yield f"{click.style('session', dim=True)}     {click.style(safe(row['id']), bold=True)}"
    lines = [("program", call(row["program"], row["arguments"])), ("status", _status(tx, row))]
    lines += [(name, safe(str(row[name]))) for name in ("title", "owner", "repository") if row.get(name)]
    lines += _origin(tx, row)
    lines += _end(row)
    for name, said in lines:
        yield f"{click.style(name.ljust(10), dim=True)}  {said}"
    raised = row["error"].get("traceback") if isinstance(row.get("error"), dict) else None
    if raised:
        yield from ("", *(safe(line) for line in str(raised).splitlines()))


def _status(tx: StoreTransaction, row: dict[str, Any]) -> str:
    from perdure.cli.text.plain import safe, span

    said = f"{row['status']}, {row['cursor']} events, begun {span(tx.now - row['created_at'])} ago"
    said += f", moved {span(tx.now - row['updated_at'])} ago"
    if row.get("lease_holder"):
        left = (row.get("lease_until") or 0) - tx.now
        held = f"for {span(left)} more" if left >= 0 else f"and silent for {span(-left)}"
        said += f"; held by {safe(row['lease_holder'])} {held}"
    if row.get("cancel_requested_at") and row["status"] != "cancelled":
        said += "; asked to stop"
    if row.get("pause_requested_at") and row["status"] not in ("done", "failed", "cancelled"):
        said += "; asked to pause"
    if row.get("sealed_at"):
        said += "; sealed here"
    return said


def _origin(tx: StoreTransaction, row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    from perdure.cli.text.waits import session_name

    if row.get("forked_from"):
        name = session_name(tx, row["forked_from"])
        yield "branch of", f"{name} at event {row['forked_at']}; what {name} planned after that is not inherited"
    if row.get("parent_uid"):
        yield "child of", session_name(tx, row["parent_uid"])
    if row.get("crash_count"):
        yield "crashes", str(row["crash_count"])


def _end(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    from perdure.cli.text.plain import error, value

    if row["status"] == "done":
        yield "result", value(row.get("result"))
    elif row.get("error") is not None:
        yield "error", error(row["error"])


def _effects(shell: Shell, rows: list[list[str]], *, more: bool, id: str) -> Iterator[str]:
    from perdure.cli.commands.effects import HEADINGS
    from perdure.cli.text.grid import grid

    yield from ("", *grid(HEADINGS, rows, width=shell.width))
    if more:
        everything = shell.suggest("effects", "--session", id, "--limit", "1000")
        yield f"These are the last {EFFECTS} and what is unsettled; `{everything}` lists more."


def _approvals(tx: StoreTransaction, found: SessionRecord) -> Iterator[str]:
    """What was decided about this session's effects, by whom and why."""
    from perdure.cli.commands.approvals import decided_by
    from perdure.cli.text.plain import safe, short, span
    from perdure.store.moves import approval

    decided = [one for one in approval.listing(tx, uid=found.uid) if one.decided_at is not None]
    if not decided:
        return
    yield from ("", "approvals")
    for one in decided[-EFFECTS:]:
        voters, why = decided_by(tx, one)
        who = f" by {voters}" if voters else ""
        said = (
            f"  {safe(one.id)}, gate {safe(one.gate)}: {one.decision}{who}, {span(tx.now - (one.decided_at or 0))} ago"
        )
        yield said + (f": {short(why)}" if why else "")


def _events(tx: StoreTransaction, uid: str, events: list[Event]) -> Iterator[str]:
    from perdure.cli.text.sentence import line, tools_of

    if not events:
        return
    tools = tools_of(tx, uid, events)
    yield from ("", " event  time")
    if events[0].number > 1:
        yield f"     …  {events[0].number - 1} earlier; --last shows more"
    yield from (line(one, tools) for one in events)
