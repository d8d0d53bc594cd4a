"""Targets of effects: what an effect touches outside, such as `branch:main` or `path:deploy/app.yaml`.

The database writes these rows with the effect. They are found by the whole target, or by a prefix that ends in `*`.
"""

from __future__ import annotations

from typing import Any

from perdure.errors import ConfigError
from perdure.ids import check_text

LONGEST = 500  # characters of a target that are indexed
LAST = "\U0010ffff"


def bounds(target: str | None) -> dict[str, Any]:
    """The values `target` and `beyond` of a query: a range of targets, or one target if `beyond` is None."""
    if target is None:
        return {"target": None, "beyond": None}
    check_text("The target", target)
    if not target.strip():
        raise ConfigError(
            "The target is empty.", hint='Give one such as "branch:main", or a prefix such as "path:src/*".'
        )
    if not target.endswith("*"):
        return {"target": target[:LONGEST], "beyond": None}
    prefix = target[:-1][:LONGEST]
    return {"target": prefix, "beyond": prefix + LAST}
