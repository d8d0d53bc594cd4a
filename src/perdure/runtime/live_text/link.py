"""Both sides of one open store: a process may run models and watch sessions of other machines."""

from __future__ import annotations

from pathlib import Path

from perdure.runtime.live_text.piece import place_of
from perdure.runtime.live_text.receiver import LiveTextReceiver
from perdure.runtime.live_text.sender import LiveTextSender
from perdure.store.messages import MessageBus


class LiveTextLink:
    """Sends live text of this process to other machines, and receives theirs."""

    def __init__(self, messages: MessageBus, folder: Path) -> None:
        place = place_of(folder)
        self.sender = LiveTextSender(messages, place)
        self.receiver = LiveTextReceiver(messages, place)
