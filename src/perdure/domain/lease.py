"""A lease: the exclusive right to move a session, or another named resource, for a while.

    epoch = restore epoch << 32 | n

Every acquisition raises the epoch and a restore begins a higher range, so an old epoch never comes back. The nonce
names one acquisition: asking again with the same nonce is the same acquisition and not a second one.
"""

from __future__ import annotations

from perdure.clock import SECOND
from perdure.domain.record import Record

RESTORE_SHIFT = 32
UNTIL_SETTLED = 2**62  # the lease of an effect has no time: it ends when the effect is settled


class Lease(Record, frozen=True):
    """A row of `lease`: a named resource. A session's lease is part of its own row."""

    resource: str
    holder: str | None
    nonce: str | None
    epoch: int
    until: int | None


class Holder:
    """The holder of a session's lease: what a holder move shows to be let in.

    `head` is the log's end as of the holder's last commit: its number and its chain. It is a guess, and may be behind:
    an outsider may have appended since. A move that relies on it is guarded and falls back to reading. It is one value,
    because other threads replace it while a move is being built: read it once per move. The requests are what the
    holder's last look at its row said. `epoch` is ahead of `confirmed_epoch` while the move that raises it commits.
    """

    __slots__ = (
        "alone",
        "boot_deadline",
        "cancel_requested",
        "confirmed_epoch",
        "epoch",
        "head",
        "interrupt_requested",
        "is_claimed",
        "is_limited",
        "name",
        "nonce",
        "pause_requested",
        "program",
        "touched_at",
        "ttl",
        "uid",
    )

    def __init__(self, uid: str, name: str, nonce: str, epoch: int, cursor: int, chain: str) -> None:
        self.uid = uid
        self.name = name
        self.nonce = nonce
        self.epoch = self.confirmed_epoch = epoch
        self.head = (cursor, chain)
        self.boot_deadline = 0
        self.ttl = 0
        self.touched_at = 0
        self.cancel_requested = False
        self.pause_requested = False
        self.interrupt_requested = False
        self.alone = True  # its process runs no other session, as far as the store knows
        self.program = ""  # of a session that was claimed
        self.is_claimed = False  # a worker took the session because it was ready; no caller waits for the run
        self.is_limited = False  # its queue has limits: its children are claimed like other sessions

    @property
    def cursor(self) -> int:
        return self.head[0]

    @property
    def chain(self) -> str:
        return self.head[1]

    def advance(self, cursor: int, chain: str, at: int = 0) -> None:
        """The log ends there now. `at` is when a hot move said so: the row tells the time of such once a second."""
        if cursor > self.cursor:
            self.head = (cursor, chain)
        if at - self.touched_at >= SECOND:
            self.touched_at = at

    def __repr__(self) -> str:
        return f"Holder({self.name!r}, session {self.uid}, epoch {self.epoch})"


def is_void(epoch: int, restore_epoch: int) -> bool:
    """Whether a restore ended a lease, and no process has held the session since."""
    return epoch == restore_epoch << RESTORE_SHIFT and restore_epoch > 0


def reserved_for(ttl: int, switched_at: int, boot: int) -> int:
    """How long a session is still reserved for its holder after another server took over: one full lease.

    The end of the lease in the row may be old, because renewals that the holder counts on may be lost. So the time is
    that of who would take it over: when it saw the switch, and now, on its boot clock.
    """
    return switched_at + ttl - boot if switched_at else 0


def next_epoch(epoch: int, restore_epoch: int) -> int:
    return max(epoch, restore_epoch << RESTORE_SHIFT) + 1
