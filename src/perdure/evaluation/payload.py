"""Text that does not compress: with repetitive text, PostgreSQL appears 47 times smaller than it is."""

from __future__ import annotations

import random
from functools import cache

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@cache
def texts(size: int, count: int = 1000) -> list[str]:
    """`count` different texts of `size` characters each, the same in every run."""
    drawn = random.Random(size)
    return ["".join(drawn.choices(_LETTERS, k=size)) for _ in range(count)]


def text(size: int, number: int) -> str:
    """One of them."""
    return texts(size)[number % 1000]
