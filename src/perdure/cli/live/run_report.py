"""The report on a session after it was run or watched: its result, or what it waits for and what to type."""

from __future__ import annotations

from typing import NamedTuple

from perdure.agent.history.state_reader import state_of
from perdure.cli.shell import Shell
from perdure.cli.text.plain import error, safe
from perdure.cli.text.waits import TEXT, WaitDescription, describe_waits, resume_line, wait_lines
from perdure.domain.session import TERMINAL, Status
from perdure.domain.wait import WaitKind
from perdure.errors import SessionFailed
from perdure.ids import encode
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.move import StoreTransaction


class RunReport(NamedTuple):
    """The state of a session when the command ends."""

    session: SessionView
    waits: list[WaitDescription]
    now: int
    answer: str | None = None  # the last message of an agent, if it waits only for the next message
    end: str = ""  # how a person at a terminal left it
    shown: bool = False  # its output was shown while it ran
    complete: bool = False  # there is nothing more to print


async def make_report(runtime: Runtime, view: SessionView) -> RunReport:
    """The state of a session, with what it waits for."""
    waits: list[WaitDescription] = []
    answer: str | None = None
    if view.status not in TERMINAL:
        waits = await runtime.store.read(describe_waits, view)
        answer = await runtime.store.read(_answer, view) if view.waits else None
    return RunReport(view, waits, runtime.store.clock.now(), answer)


def _answer(tx: StoreTransaction, view: SessionView) -> str | None:
    """The last message of an agent, if it waits only for the next message."""
    if any(one.kind != WaitKind.INPUT or one.ref is not None for one in view.waits):
        return None
    return state_of(tx, view)[0].answer()


def show_report(shell: Shell, report: RunReport) -> int:
    """Print the result or the waits, and return the exit code. Raises the error of a failed session."""
    view = report.session
    if report.complete:
        return 0
    if shell.json and not report.shown:
        shell.echo_json(view)
    if view.status == Status.DONE:
        if not shell.json and not report.shown:
            shell.echo(safe(view.result, keep="\n\t") if isinstance(view.result, str) else safe(encode(view.result)))
        return 0
    if view.status in (Status.FAILED, Status.CANCELLED):
        verb = "failed" if view.status == Status.FAILED else "was cancelled"
        show = shell.suggest("show", view.id, "--last", "20")
        again = f" `{shell.suggest('retry', view.id, app=True)}` runs it again." if view.status == Status.FAILED else ""
        hint = f"`{show}` shows its last events.{again}" if shell.is_store_durable else ""
        raise SessionFailed(f"Session {view.id} {verb}: {error(view.error)}", hint=hint)
    if report.end and view.status in (Status.READY, Status.RUNNING):  # the person left and the session has not ended
        shell.echo(*left_lines(shell, view.id, continues=view.status == Status.RUNNING))
        return 0
    if report.answer is not None:
        if not shell.json:
            _show_answer(shell, report, report.answer)
        return 0
    if not shell.json:
        _show_waits(shell, report)
    return 3


def left_lines(shell: Shell, id: str, *, continues: bool) -> list[str]:
    """Whether a session that the person left continues, and how to return to it."""
    state = "continues in the background" if continues else "is ready and no process runs it"
    back = shell.suggest("attach" if continues else "resume", id, app=True)
    return [f"Session {safe(id)} {state}.", f"Run `{back}` to return to it."]


def _show_answer(shell: Shell, report: RunReport, answer: str) -> None:
    if report.shown and not shell.is_store_durable:
        return
    if report.shown:
        back = shell.suggest("attach", report.session.id, app=True)
        shell.note(f"Session {safe(report.session.id)} waits for your next message. Run `{back}` to return to it.")
        return
    shell.echo(safe(answer, keep="\n\t"), "")
    if shell.is_store_durable:
        shell.note(f"Run `{shell.suggest('resume', report.session.id, TEXT, app=True)}` to send the next message.")


def _show_waits(shell: Shell, report: RunReport) -> None:
    name = safe(report.session.id)
    if not shell.is_store_durable:
        shell.echo(f"Session {name} was waiting, and ended with its store in memory:", "")
        shell.echo(*(f"  {one.wait.kind}: {one.what}" for one in report.waits))
        return
    for_a_person = any(one.for_a_person for one in report.waits)
    needs_code = all(one.wait.kind == WaitKind.PROGRAM for one in report.waits if one.for_a_person)
    state = ("needs code" if needs_code else "waits for a person") if for_a_person else "is waiting"
    shell.echo(f"Session {name} {state}.", "")
    shell.echo(*wait_lines(shell, report.waits, report.now))
    if any(command.words[0] != "resume" for one in report.waits for command in one.commands):
        shell.echo("", f"Then run `{resume_line(shell, report.session)}` to continue.")
