"""The authenticated identity of the process that acts on a store. The name given with `by` or `--by` is only shown."""

from __future__ import annotations

from perdure.domain.identity import Identity, acting, acting_identity
from perdure.store.store import Store

__all__ = ["Identity", "acting", "identity_of"]


def identity_of(store: Store) -> Identity:
    """Who acts here: the caller that a service acts for, else the user or the database role of this process."""
    return Identity.parse(acting_identity() or store.identity)
