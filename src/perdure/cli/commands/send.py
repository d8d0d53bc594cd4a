"""`perdure send`: a message to a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from perdure.cli.attachments import Message, attach_files, compose_message, read_text
from perdure.cli.background_worker import supports_background
from perdure.cli.live.conversation import Conversation
from perdure.cli.live.run_report import RunReport, make_report, show_report
from perdure.cli.live.session_driver import BackgroundDriver
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe
from perdure.cli.text.waits import TEXT, WaitDescription
from perdure.domain.event import Event
from perdure.domain.inbox import InboxMessage
from perdure.domain.literals import MessageMode
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, LeaseHeld
from perdure.runtime.live_text.delta import Delta
from perdure.runtime.runtime import Runtime
from perdure.store.moves import session


@command
@click.argument("id")
@click.argument("text")
@click.option(
    "--id", "message_id", metavar="NAME", help="An id for the message. Sending the same id again has no effect."
)
@click.option(
    "--mode",
    type=click.Choice(["queue", "steer"]),
    default="queue",
    show_default=True,
    help="When the session reads it.",
)
@click.option("--data", is_flag=True, help="TEXT is a JSON value, for a program that receives messages of a type.")
@click.option("--wait", is_flag=True, help="Wait until the session rests again, and print its answer.")
@by_option
def send(shell: Shell, id: str, text: str, message_id: str | None, mode: MessageMode, data: bool, wait: bool) -> int:
    """Send a message to a session, whether it is running or waiting.

    A queued message is read when the session asks for input; a steering message is read before its next step. @path in
    the message attaches that file. If TEXT is -, the message is read from standard input. --data attaches nothing.

    With --wait the command returns when the session has ended or needs a person, with the exit code of `perdure run`. A
    session that no process runs is run by a worker in the background.
    """
    if message_id is not None and not message_id.strip():
        raise ConfigError("The message id is empty.", hint="Leave --id out to have one generated.")
    body = parse_data(text) if data else None
    if wait:
        check_wait(shell, id)
        shell.load()

    async def work(runtime: Runtime) -> RunReport | None:
        found = await runtime.store.read(session.find, id)
        if data:
            received = await runtime.send(found.uid, body, message_id=message_id, mode=mode, by=shell.by)
        else:
            received = await send_message(shell, runtime, found, text, message_id=message_id, mode=mode)
        if shell.json:
            shell.echo_json(received)
        elif not wait:
            state = "was read already" if received.promoted_as else "is not read yet"
            shell.echo(f"Message {safe(received.id)} from {safe(received.sender)} is in the inbox and {state}.")
        return await watch_quietly(shell, runtime, found.uid) if wait else None

    report = run_with_runtime(shell, work)
    return 0 if report is None else show_report(shell, report)


def check_wait(shell: Shell, id: str) -> None:
    """Refuse to wait where no other process can run the session, before the message is sent."""
    if not supports_background(shell):
        raise ConfigError(
            "Only one process at a time can use this store, so no other process can run the session meanwhile.",
            hint=f"Run `{shell.suggest('resume', id, TEXT, app=True)}` instead.",
        )


def parse_data(text: str) -> Any:
    """The message of `--data`; `-` reads it from standard input."""
    try:
        return msgspec.json.decode(read_text() if text == "-" else text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ConfigError(f"The message is not JSON: {error}.", hint="Leave --data out to send text.") from None


async def send_message(
    shell: Shell,
    runtime: Runtime,
    found: SessionRecord,
    text: str,
    *,
    message_id: str | None = None,
    mode: MessageMode = "queue",
    with_pipe: bool = False,
) -> InboxMessage:
    """Send a message with its attachments. Files are named relative to the folder of the session."""
    folder, is_piped = Path(found.repository or "."), text == "-"
    text = read_text() if is_piped else text
    if not text.strip():
        raise ConfigError("The message is empty.", hint="Give a text.")
    message: Message = text
    if with_pipe and not is_piped:
        message = compose_message(shell, text, folder)
    elif not is_piped:
        message = attach_files(text, folder, shell.note)
    return await runtime.send(found.uid, message, message_id=message_id, mode=mode, by=shell.by)


class SilentRenderer:
    """Shows nothing, and counts events."""

    def __init__(self, after: int) -> None:
        self.number = after

    async def event(self, event: Event) -> None:
        self.number = event.number

    def delta(self, piece: Delta) -> None:
        """Live text is not shown."""

    def wait_for(self, waits: list[WaitDescription]) -> None:
        """What the session waits for is not shown either."""

    def status(self, frame: int) -> str:  # noqa: ARG002 - there is no status line
        return ""


async def watch_quietly(shell: Shell, runtime: Runtime, uid: str) -> RunReport:
    """Wait until a session has ended or needs a person. One that no process runs is given to a background worker."""
    view = await runtime.get(uid)
    conversation = Conversation(shell, runtime, view, SilentRenderer(view.cursor))
    conversation.driver = BackgroundDriver(
        shell, uid, lambda worker: shell.note(f"A worker continues it in the background (pid {worker.process.pid}).")
    )
    left = await conversation.run()
    if conversation.end == "dead":
        again = shell.suggest("resume", view.id, app=True)
        raise LeaseHeld(f"The worker of session {view.id} died.", hint=f"Run `{again}` to continue the session.")
    return await make_report(runtime, left)
