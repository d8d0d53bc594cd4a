"""The command line of a process under test, and its last line.

The process performs the effects 1 to N in order at the sink, or continues where an earlier process ended. It ends with
0 and {"ended": "done"}, or with 3 and {"ended": "asked", "asked": [2]} if a person has to say whether an effect
happened. The next process gets the answer as `--verdicts {"2": "happened"}`. With `--pause start` or `--pause middle`
it prints `paused` at its start, or between effects 1 and 2, and continues when it can read a line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec

from perdure import faults


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", required=True, help="the address of the durable state")
    parser.add_argument("--configuration", required=True)
    parser.add_argument("--ability", required=True, choices=["nothing", "key", "lookup", "undo", "pure", "joint"])
    parser.add_argument("--effects", type=int, default=3)
    parser.add_argument("--inflight", type=float, default=0.2)
    parser.add_argument("--verdicts", type=msgspec.json.decode, default={})
    parser.add_argument("--pause", choices=["", "start", "middle"], default="")
    parser.add_argument("--point", default="", help="die when this fault point is reached")
    parser.add_argument("--armed", choices=["start", "middle"], default="middle", help="from when on")
    return parser.parse_args()


def pause(given: argparse.Namespace, where: str) -> None:
    """Wait for the conductor of the trial, if it wants to kill here or to attach a tracer; then arm the fault point."""
    if given.pause == where:
        print("paused", flush=True)
        sys.stdin.readline()
    if given.point and given.armed == where:
        faults.arm(lambda name: _die() if name == given.point else None)


def _die() -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


def end(asked: Iterable[int]) -> NoReturn:
    """Report how the process ended."""
    questions = sorted(asked)
    report: dict[str, Any] = {"ended": "asked" if questions else "done", "asked": questions}
    print(msgspec.json.encode(report).decode(), flush=True)
    sys.exit(3 if questions else 0)
