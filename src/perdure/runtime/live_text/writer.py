"""The live text of a model call while it lasts: to watchers in this process, in others, and on other machines.

What may be a part of a known secret is held back before any of them gets it.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from perdure.ids import new_uid
from perdure.runtime.live_text.delta import Delta, LiveTextHeader, RetryNotice
from perdure.runtime.live_text.file import LiveTextFile
from perdure.secrets.redaction import KNOWN, stream
from perdure.secrets.stream import RedactionStream

if TYPE_CHECKING:
    from perdure.runtime.live_text.sender import LiveTextSender
    from perdure.runtime.run.run import Run


class LiveTextWriter:
    """Publishes an answer while the model writes it: to a watcher in this process, then to those in others.

    Used as a context manager around the model call and its record: on exit without an error, the answer is recorded.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._head: LiveTextHeader | None = None
        self._file: LiveTextFile | None = None
        self._redaction: RedactionStream | None = None
        self._sender: LiveTextSender | None = None

    def say(self, text: str) -> None:
        """Publish one more piece; the first one begins the call. What may be a part of a known secret is held back."""
        if KNOWN.pattern is not None:
            self._redaction = self._redaction or stream()
        if self._redaction is None:
            self._publish(text)
        elif shown := self._redaction.feed(text.encode()).decode():
            self._publish(shown)

    def flush(self) -> None:
        """The answer is complete: publish what was held back."""
        redaction, self._redaction = self._redaction, None
        if redaction is not None and (rest := redaction.end().decode()):
            self._publish(rest)

    def _publish(self, text: str) -> None:
        if self._head is None or self._head.retry is not None:
            self._begin(LiveTextHeader(new_uid(), self._run.holder.cursor), text)
        else:
            self._tell(self._head, text)
            if self._sender is not None:
                self._sender.say(self._run.session.uid, text)
        with suppress(Exception):
            if self._file is not None:
                self._file.append(text)

    def wait(self, retry: RetryNotice) -> None:
        """The model is asked again later; the output so far will not be recorded."""
        self._begin(LiveTextHeader(new_uid(), self._run.holder.cursor, retry), "")

    def _begin(self, head: LiveTextHeader, text: str) -> None:
        self._over(recorded=False)
        self._redaction = self._redaction if head.retry is None else None
        self._head = head
        self._tell(head, text)
        with suppress(Exception):
            if self._sender is not None:
                self._sender.begin(self._run.session.uid, head, text)
            self._file = self._run.runtime.live_text.begin(self._run.session.uid, head)

    def __enter__(self) -> Self:
        with suppress(Exception):
            if (link := self._run.runtime.live_text.link) is not None:
                link.sender.listen()
                self._sender = link.sender
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over(recorded=error is None)
        if error is None:
            with suppress(Exception):
                self._run.runtime.live_text.sweep()

    def _tell(self, head: LiveTextHeader, text: str, *, broke_off: bool = False) -> None:
        runtime = self._run.runtime
        for listener in [*filter(None, [runtime.on_delta]), *runtime.live_text.listeners]:
            with suppress(Exception):
                listener(Delta(self._run.session.uid, head.call, head.after, text, broke_off, head.retry))

    def _over(self, *, recorded: bool) -> None:
        head, self._head = self._head, None
        file, self._file = self._file, None
        if head is not None and head.retry is not None:
            recorded = True  # there was no text that could break off
        elif head is not None and not recorded:
            self._tell(head, "", broke_off=True)
        if head is not None and self._sender is not None:
            self._sender.end(self._run.session.uid, recorded=recorded)
        if file is not None:
            with suppress(Exception):
                file.close(recorded=recorded)
