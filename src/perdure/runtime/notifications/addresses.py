"""The addresses that a webhook may reach. A name is resolved once, and the connection goes to that very address.

Otherwise a name could be public when it is checked and private when it is used.
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from perdure.runtime.notifications.channels import NotSent

TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))  # NAT64: the last four bytes are IPv4


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet, also if it is an IPv4 address within an IPv6 one."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and any(address in one for one in TRANSLATED):
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


async def resolve(host: str, port: int, *, private: bool) -> list[str]:
    """The addresses of a host, in the order in which to try them; refused if one of them is private."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotSent("the name of the host cannot be resolved") from None
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    if not private and not all(map(is_public, addresses)):
        raise NotSent("the host has a private address; `private = true` in the settings of the channel allows it")
    return addresses
