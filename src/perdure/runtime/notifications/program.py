"""A notification for a command of the settings: the words as they are, the body on its standard input.

A command that ends with 0 has taken the notification. One that takes too long is stopped with all that it started.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

from perdure.domain.notification import Notification
from perdure.runtime.notifications.channels import CommandChannel, NotSent


async def send(channel: CommandChannel, one: Notification, body: bytes) -> None:
    """Run the command. Raises `NotSent` if it failed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    environment = own | {"PERDURE_NOTIFICATION_ID": one.id, "PERDURE_NOTIFICATION_TOPIC": one.topic}
    try:
        process = await asyncio.create_subprocess_exec(
            *channel.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL, env=environment, cwd="/", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise NotSent(f"the command cannot be started: {error.strerror}") from None
    try:
        await process.communicate(body)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise NotSent(f"the command ended with {process.returncode}")
