"""Known values in a stream, however it is cut into pieces."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from perdure.secrets.stream import RedactionStream

VALUES = [b"abcabd12", b"abcabd12-and-more", b"bd12-and", b"ccccccccc", b"12345678\n12345678"]
MARKERS = {one: f"[{n}]".encode() for n, one in enumerate(VALUES)}
PARTS = st.sampled_from([*VALUES, *(one[:n] for one in VALUES for n in (1, 3, 7)), b"a", b"c", b"1", b"x", b"\n"])


def whole(content: bytes) -> bytes:
    longest_first = b"|".join(map(re.escape, sorted(VALUES, key=len, reverse=True)))
    return re.sub(longest_first, lambda found: MARKERS[found[0]], content)


@given(st.lists(PARTS, max_size=12), st.lists(st.integers(1, 9), min_size=1))
def test_pieces_are_redacted_as_the_whole(parts: list[bytes], sizes: list[int]) -> None:
    content, stream, shown, at = b"".join(parts), RedactionStream(MARKERS), b"", 0
    while at < len(content):
        size = sizes[at % len(sizes)]
        shown += stream.feed(content[at : at + size])
        assert not any(one in shown for one in VALUES)
        at += size
    assert shown + stream.end() == whole(content)


def test_only_what_may_begin_a_value_is_held_back() -> None:
    stream = RedactionStream({b"secret-value": b"***"})
    assert stream.feed(b"progress 10%\r") == b"progress 10%\r"
    assert stream.feed(b"the sec") == b"the "
    assert stream.feed(b"ond") == b"second"
    assert (stream.feed(b"secret-"), stream.feed(b"value!")) == (b"", b"***!")
    assert (stream.feed(b"secret-val"), stream.end(), stream.end()) == (b"", b"secret-val", b"")


def test_a_long_value_in_small_pieces_costs_little() -> None:
    value = bytes(range(33, 123)) * 700
    stream = RedactionStream({value: b"***"})
    assert b"".join(stream.feed(value[at : at + 4096]) for at in range(0, len(value), 4096)) == b"***"
