"""How often callers may ask, in each process.

caller    so many requests a minute of one principal, counted after authentication: all its tokens are one
address   so many failed authentications a minute from one client address. Beyond them, credentials that have not been
          valid here lately are refused without asking the store; callers that are known continue

The address is that of the connection; behind a proxy, the last one of `X-Forwarded-For`, which the proxy has added. An
IPv6 network of 64 bits is one address, because one client has all of it.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

from starlette.requests import Request

from perdure.clock import SECOND, Clock
from perdure.domain.caller import Caller
from perdure.errors import TooManyRequests
from perdure.ids import digest
from perdure.server.settings import ServerSettings

REMEMBERED = 10_000  # callers, addresses, and credentials


class RatePerMinute:
    """So many a minute for each name, and as many at once."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self.most = float(per_minute)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def wait(self, who: str) -> int:
        """In how many seconds the next one is allowed; 0: now."""
        left = self._now(who)[0]
        return 0 if left >= 1 else max(1, round((1 - left) * 60 / self.most))

    def count(self, who: str) -> None:
        left, now = self._now(who)
        self._left[who] = (max(left - 1, 0.0), now)
        self._left.move_to_end(who)
        if len(self._left) > REMEMBERED:
            self._left.popitem(last=False)

    def _now(self, who: str) -> tuple[float, int]:
        now = self._clock.boot()
        left, at = self._left.get(who, (self.most, now))
        return min(self.most, left + (now - at) / SECOND * self.most / 60), now


class CallerRates:
    """Counts requests of callers, and failures of addresses."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self._behind_proxy = settings.behind_proxy
        self.callers = RatePerMinute(settings.requests_per_minute, clock)
        self._failures = RatePerMinute(settings.failures_per_minute, clock)
        self._valid: OrderedDict[str, None] = OrderedDict()  # digests of credentials that were valid, latest last

    def check_address(self, request: Request) -> None:
        """Refuse unknown credentials from an address that has failed too often."""
        wait = self._failures.wait(self._address(request))
        if wait and _credentials(request) not in self._valid:
            raise TooManyRequests(
                f"More than {self._failures.most:g} requests a minute from this address had no valid token.",
                retry_after=wait,
            )

    def count_failure(self, request: Request) -> None:
        """The credentials of a request are missing or wrong."""
        self._valid.pop(_credentials(request), None)
        self._failures.count(self._address(request))

    def count(self, request: Request, caller: Caller) -> None:
        """Count a request of an authenticated caller; refuses one too many."""
        self._valid[known := _credentials(request)] = None
        self._valid.move_to_end(known)
        if len(self._valid) > REMEMBERED:
            self._valid.popitem(last=False)
        wait = self.callers.wait(caller.key)
        self.callers.count(caller.key)
        if wait:
            raise TooManyRequests(f"More than {self.callers.most:g} requests came in a minute.", retry_after=wait)

    def _address(self, request: Request) -> str:
        return address_of(request, behind_proxy=self._behind_proxy)


def address_of(request: Request, *, behind_proxy: bool) -> str:
    """The address of the client of a request; empty on a Unix socket."""
    given = [request.client.host] if request.client is not None else []
    if behind_proxy and (passed := request.headers.getlist("x-forwarded-for")):
        given.append(passed[-1].rpartition(",")[2].strip())
    for one in reversed(given):
        try:
            found = ipaddress.ip_address(one)
        except ValueError:
            continue
        return one if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))
    return ""


def _credentials(request: Request) -> str:
    peer = request.scope.get("state", {}).get("peer_uid")
    return digest(f"{peer} {' '.join(request.headers.getlist('authorization'))}")
