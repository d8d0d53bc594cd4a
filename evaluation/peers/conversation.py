"""The workload `growth` for peers that keep a conversation: a long history, and turns on it. Standard library only.

    NAME_peer.py build --state DIR --messages N             a conversation of N messages, in bulk
    NAME_peer.py grow --state DIR --messages N --steps N    its figures, as JSON: seconds, and bytes passed to `write`

A turn has four lines: a message, a call of the model, its result, an answer. An adapter gives `build(options, lines)`
and `talk(options)`, a context manager with the functions `turn()` and `count()`; entering it opens the store. Before
anything is timed, one turn of another conversation loads the code.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
LINE, SHORT = 1000, 200  # characters of an answer of the history, and of one of a turn


def text(size, number):
    """Text that does not compress."""
    return "".join(random.Random(number % 1000).choices(LETTERS, k=size))


def lines(messages):
    """The history: a person and the model by turns."""
    return [("user", "continue") if n % 2 == 0 else ("assistant", text(LINE, n)) for n in range(messages)]


def build(options, peer):
    peer.build(options, lines(options.messages))


def grow(options, peer):
    with tempfile.TemporaryDirectory() as folder:
        other = argparse.Namespace(**{**vars(options), "state": folder})
        peer.build(other, lines(2))
        with peer.talk(other) as (turn, _):
            turn()
    begun = time.perf_counter()
    with peer.talk(options) as (turn, _):
        turn()
        resume = time.perf_counter() - begun
    with peer.talk(options) as (turn, count):
        turn()
        before, written, taken = count(), _written(), []
        for _ in range(options.steps):
            begun = time.perf_counter()
            turn()
            taken.append(time.perf_counter() - begun)
        written, after = (_written() - written) / options.steps, count()
    figures = {"step": statistics.median(taken), "resume": resume, "written": written}
    about = {"messages": options.messages, "before": before, "after": after, "steps": options.steps}
    print(json.dumps(figures | about), flush=True)


def _written():
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines())
    return int(fields["wchar"])
