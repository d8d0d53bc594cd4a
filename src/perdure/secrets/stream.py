"""Known values in what arrives in pieces: a value that is split over pieces is found too.

It imports nothing but the standard library, because the command runner uses it. The runner gets the values through a
pipe: no command can read that, nor the memory of the runner.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

_COMPLETE = "complete\n"


class RedactionStream:
    """Replaces values in a stream of bytes. What may begin a value is held back until it is known not to."""

    def __init__(self, markers: Mapping[bytes, bytes]) -> None:
        self._markers = markers
        self._values = sorted(markers, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._values)))
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """Take one more piece; returns what can be passed on. It never cuts a character that came whole."""
        content = self._held + piece
        at, end = 0, self._possible_start(content, 0)
        parts: list[bytes] = []
        is_found = any(one in content for one in self._values)  # ten times faster than the pattern
        for found in self._pattern.finditer(content) if is_found else ():
            if found.start() >= end:
                break
            parts += [content[at : found.start()], self._markers[found[0]]]
            at = found.end()
            if at > end:
                end = self._possible_start(content, at)
        self._held = content[end:]
        return b"".join([*parts, content[at:end]])

    def end(self) -> bytes:
        """The rest, when nothing more comes."""
        rest, self._held = self._held, b""
        return self._pattern.sub(lambda found: self._markers[found[0]], rest)

    def _possible_start(self, content: bytes, begin: int) -> int:
        """Where the first value begins of which there may be only a part yet."""
        least = len(content)
        for value in self._values:
            at = content.find(value[:1], max(begin, len(content) - len(value) + 1))
            while 0 <= at < least:
                if value.startswith(content[at:]):
                    least = at
                at = content.find(value[:1], at + 1)
        return least


def send_markers(pipe: int, markers: Mapping[bytes, bytes]) -> None:
    """Send what another process replaces, and close the pipe."""
    with suppress(BrokenPipeError), open(pipe, "w") as file:
        file.writelines([f"{value.hex()} {shown.hex()}\n" for value, shown in markers.items()] + [_COMPLETE])


def receive_markers(pipe: int) -> RedactionStream | None:
    """A stream that replaces what was sent; None if the sender has died before it sent everything."""
    with open(pipe) as file:
        *lines, last = file.readlines() or [""]
    if last != _COMPLETE:
        return None
    pairs = (line.split() for line in lines)
    return RedactionStream({bytes.fromhex(value): bytes.fromhex(shown) for value, shown in pairs})
