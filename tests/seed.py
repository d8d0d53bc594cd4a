"""A pytest plugin: the seed of a run, from which its sweeps choose the moments at which they kill.

Each run has another seed, so that many runs reach what one cannot afford. It is printed at the end; `PERDURE_SEED=...`
repeats the choice. In CI the seed is taken from the commit, so that what failed there can be run again anywhere. `make
soak` leaves nothing out: there every moment is chosen.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest


def _new_seed() -> int:
    if "CI" not in os.environ:
        return random.SystemRandom().randrange(1_000_000)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    return int(commit.stdout[:5] or "0", 16)


# In the environment, so that the processes that pytest-xdist starts choose from the same seed.
SEED = os.environ.get("PERDURE_SEED") or os.environ.setdefault("PERDURE_SEED", str(_new_seed()))
ALL = "PERDURE_SOAK" in os.environ
T = TypeVar("T")


def chance() -> random.Random:
    """The randomness of the current test: it depends on the seed and on the test's name, and on nothing else."""
    return random.Random(f"{SEED} {os.environ.get('PYTEST_CURRENT_TEST', '').rpartition(' ')[0]}")


def sample(found: Iterable[T], most: int) -> list[T]:
    """One from each of `most` equal stretches, or all where all are wanted or there are no more."""
    moments = list(found)
    if ALL or len(moments) <= most:
        return moments
    cuts = [len(moments) * number // most for number in range(most + 1)]
    by_chance = chance()
    return [moments[by_chance.randrange(start, end)] for start, end in pairwise(cuts)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"The seed of this run is {SEED}; PERDURE_SEED={SEED} chooses the same moments.")


def kill_points(end: int, *, every: int) -> range:
    """The kill points below `end`: all of them in a soak, otherwise one of so many, from a start by chance."""
    step = 1 if ALL else every
    return range(chance().randrange(1, step + 1), end, step)
