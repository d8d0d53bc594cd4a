"""Tasks of the connection tests: one move through a proxy that misleads the client about a statement, and its outcome.

The statement was executed. Whatever the client is told, only an answer of the server may decide what it concludes.
"""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import quote

from perdure.errors import CommitUnknown
from perdure.store.move import StoreTransaction, plain_move
from perdure.store.moves import meta, session
from perdure.testing.sweep.fork_process import Channel
from tests.crash.support import planted_bugs
from tests.crash.support.lost_connections import WORKS, ProxiedSession, answer_of, long_use
from tests.crash.support.misleading_proxy import PLAIN, MisleadingProxy

CONNECTING = b'SAVEPOINT "_pg3_2"'  # of the first transaction on each connection
SEARCH = b"from session where uid"  # begins with the row


def begin(url: str, patience: float = 60, *, pooled: bool = False) -> ProxiedSession:
    more = f"&perdure_pooler=transaction&perdure_direct_url={quote(url, safe='')}" if pooled else ""
    return ProxiedSession(url, patience, options=f"?{PLAIN}{more}", proxy=MisleadingProxy)


def _fired(proxied: ProxiedSession) -> list[str]:
    return [] if proxied.proxy.fired.is_set() else ["the client was not misled"]


def misled(
    channel: Channel, *, url: str, fault: str, work: str, pooled: bool, connecting: bool = False,
    plant: str | None = None,
) -> list[str]:  # fmt: skip
    """About a commit, and then about a statement of the next connection: the move is there once, with its answer."""
    planted_bugs.plant(plant)
    proxied = begin(url, pooled=pooled)
    make, match = WORKS[work]
    proxied.proxy.arm(fault, match)
    if connecting:
        proxied.proxy.arm(fault, CONNECTING, times=2)
    answer = answer_of(lambda: proxied.store.write_now(make(proxied)))
    return _fired(proxied) + proxied.problems(answer, None if work == "use" else proxied.cursor + 1)


def misled_search(channel: Channel, *, url: str, work: str, plant: str | None = None) -> list[str]:
    """After a lost commit each search for it is refused, so the commit stays unknown."""
    planted_bugs.plant(plant)
    proxied = begin(url, patience=1)
    make, match = WORKS[work]
    proxied.proxy.arm("the server's end, and the pooler's", match)
    proxied.proxy.arm("refused", SEARCH, times=10_000)
    return proxied.problems(answer_of(lambda: proxied.store.write_now(make(proxied))), CommitUnknown.code)


def misled_read(channel: Channel, *, url: str, fault: str, plant: str | None = None) -> list[str]:
    """A read is repeated on another connection."""
    planted_bugs.plant(plant)
    proxied = begin(url)
    proxied.proxy.arm(fault, b"from session where uid")
    answer = answer_of(lambda: proxied.store.read_now(session.get, proxied.holder.uid).cursor)
    return _fired(proxied) + proxied.problems(answer, proxied.cursor, times=0)


@plain_move
def ignore_an_error(tx: StoreTransaction) -> None:
    with suppress(Exception):
        tx.execute("select 41 + 1", [])
    tx.run("meta.put", key="a", value="b")


def misled_function(channel: Channel, *, url: str, fault: str, plant: str | None = None) -> list[str]:
    """A user's function catches the error and continues: not on that connection."""
    planted_bugs.plant(plant)
    proxied = begin(url)
    proxied.store.write_now(meta.put("a", "0"))
    before = proxied.proxy.connections
    proxied.proxy.arm(fault, b"41 + 1")
    proxied.store.write_now(ignore_an_error())
    found = [] if proxied.proxy.connections > before else ["the connection was used again"]
    found += [] if proxied.store.read_now(meta.get, "a") == "b" else ["the function was not carried out"]
    proxied.store.write_now(long_use(proxied))
    return _fired(proxied) + found + proxied.problems(None, None)
