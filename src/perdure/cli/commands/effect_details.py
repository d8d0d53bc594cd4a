"""`perdure effects EFFECT` and `perdure show ID --effect EFFECT`: one effect, with its whole output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, command
from perdure.cli.subcommands import ListingCommand
from perdure.config import is_service

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.control.branches.effect_files import EffectFiles
    from perdure.domain.effect import Attempt, Effect
    from perdure.runtime.effect_details import EffectDetails
    from perdure.store.move import StoreTransaction


@command
@click.argument("effect")
def effect_details(shell: Shell, effect: str) -> None:
    """Show one effect: its arguments, attempts, result, whole output, and the files that it changed.

    EFFECT is the id of an effect or a unique prefix of it.
    """
    show_effect(shell, effect)


def extend(listing: click.Command) -> ListingCommand:
    """The listing of effects, which shows one effect if it is given an id."""
    return ListingCommand(listing, {}, effect_details)


def show_effect(shell: Shell, effect: str, session: str | None = None) -> None:
    """Print one effect; `session` limits the search to one session."""
    from perdure.agent import reach
    from perdure.cli.store_access import read_logged
    from perdure.runtime.effect_details import read_details, with_artifacts

    def where(tx: StoreTransaction) -> tuple[str | None, str | None]:
        one = read_details(tx, effect, session).effect
        return one.session_uid, one.id

    with read_logged(shell, "transcript", where) as tx:
        found, now = read_details(tx, effect, session), tx.now
        outside = reach.of(tx, found.effect)
    found = with_artifacts(found, artifact_folder(shell))
    files, why = _files(shell, found.effect, stat=not shell.json)
    if shell.json:
        shell.echo_json(_json(found, files) | {"outside": outside})
    else:
        shell.echo(*_lines(shell, found, now, outside), *_file_lines(shell, found, files, why))


def artifact_folder(shell: Shell) -> Path | None:
    """The folder with the artifacts of the store."""
    from perdure.runtime.run.large_values import folder_of
    from perdure.store.inspection.read_access import locate_store

    if is_service(shell.store):
        return None
    return folder_of(locate_store(shell.store).folder, shell.settings.get("artifacts"))


def _files(shell: Shell, effect: Effect, *, stat: bool) -> tuple[EffectFiles | None, str | None]:
    """What the effect changed in the files, or why that cannot be shown."""
    from perdure.cli.store_access import run_with_runtime
    from perdure.control.branches.effect_files import files_changed
    from perdure.errors import PerdureError

    if not isinstance(effect.position, list) or effect.position[0] != "call":
        return None, None
    try:
        return run_with_runtime(shell, lambda runtime: files_changed(runtime, effect, stat=stat)), None
    except PerdureError as error:
        return None, error.message


def _json(found: EffectDetails, files: EffectFiles | None) -> dict[str, Any]:
    return found.effect.to_dict() | {
        "session": found.session,
        "attempts": found.attempts,
        "result": found.result,
        "output": found.output,
        "output_artifact": found.artifact,
        "unreadable": found.unreadable,
        "files": files,
    }


def _lines(shell: Shell, found: EffectDetails, now: int, outside: str) -> Iterator[str]:
    from perdure.cli.text.intent import lines_of
    from perdure.cli.text.plain import safe

    effect = found.effect
    facts = [
        ("effect", click.style(safe(effect.id), bold=True)),
        ("session", safe(found.session)),
        ("tool", f"{safe(effect.tool)}, replay rule {effect.replay}"),
        ("state", _state(effect, now)),
        ("outside", outside),
        ("reference", safe(effect.reference or "")),
        ("approval", safe(effect.approval_id or "")),
        ("verdict", _verdict(effect)),
    ]
    yield from (f"{click.style(name.ljust(10), dim=True)}  {text}" for name, text in facts if text)
    yield from ("", click.style("arguments", bold=True), *(line.plain for line in lines_of(effect, None)))
    yield from ("", click.style("attempts", bold=True), *(_attempt(one, now) for one in found.attempts))
    if not found.attempts:
        yield "    none: it was not dispatched"
    yield from _result(found)
    yield from (safe(sentence) for sentence in found.unreadable)
    if effect.state == "dispatched" and effect.doubted_at is not None:
        yield from ("", f"It is in doubt. `{shell.suggest('show', found.session)}` shows how to settle it.")


def _state(effect: Effect, now: int) -> str:
    from perdure.cli.text.plain import safe
    from perdure.clock import span

    state = "in doubt" if effect.state == "dispatched" and effect.doubted_at is not None else effect.state
    text = f"{state}, planned {span(now - effect.planned_at)} ago"
    if effect.settled_at is not None:
        text += f", settled {span(now - effect.settled_at)} ago"
    return f"{text}. {safe(effect.doubt)}" if effect.doubt else text


def _verdict(effect: Effect) -> str:
    from perdure.cli.text.plain import safe

    if effect.verdict is None:
        return ""
    return f"{effect.verdict} by {safe(effect.verdict_by or '')}: {safe(effect.verdict_because or '')}"


def _attempt(one: Attempt, now: int) -> str:
    from perdure.cli.text.effects import progress
    from perdure.cli.text.plain import error, safe
    from perdure.clock import span

    ended = one.ended_at or one.settled_at
    took = f"took {span(ended - one.dispatched_at)}" if ended is not None else "no end is recorded"
    text = f"    {one.number}  {one.outcome or 'no outcome yet'}, {span(now - one.dispatched_at)} ago, {took}"
    text += f", by {safe(one.worker)}" + (f", sandbox {safe(one.sandbox)}" if one.sandbox else "")
    text += f"; reported: {reported}" if (reported := progress([one], now)) else ""
    return text if one.error is None else f"{text}: {error(one.error)}"


def _result(found: EffectDetails) -> Iterator[str]:
    """The error, the output line by line, or the result as JSON if it is no text."""
    from perdure.cli.text.plain import error, safe
    from perdure.ids import encode

    if found.effect.error is not None:
        yield from ("", click.style("error", bold=True), f"    {error(found.effect.error)}")
    if found.output is not None:
        name = f"output (artifact {found.artifact[:12]})" if found.artifact else "output"
        yield from ("", click.style(name, bold=True))
        yield from (f"    {safe(line, keep=chr(9))}".rstrip() for line in found.output.splitlines())
    elif found.result is not None:
        yield from ("", click.style("result", bold=True), f"    {safe(encode(found.result))}")


def _file_lines(shell: Shell, found: EffectDetails, files: EffectFiles | None, why: str | None) -> Iterator[str]:
    from perdure.cli.text.plain import safe

    if files is None:
        if why is not None:
            yield from ("", f"The changed files cannot be shown: {safe(why)}")
        return
    beside = f", with the {files.calls - 1} other calls of the same answer" if files.calls > 1 else ""
    yield from ("", click.style(f"files changed{beside}", bold=True))
    yield from (f"   {safe(line)}" for line in files.text.splitlines())
    if not files.text:
        yield "    none"
        return
    span = ("--from", str(files.before.event), "--to", str(files.after.event))
    yield f"`{shell.suggest('diff', found.session, *span)}` shows the change."
