"""Where a request comes from: the nearest address that no trusted proxy vouches for; of IPv6 the network, because a
household has a whole one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TypeAlias

IPV6_PREFIX = 64
UNKNOWN = "unknown"
"""Of callers without an address (a Unix socket)."""

Address: TypeAlias = IPv4Address | IPv6Address
Networks: TypeAlias = Sequence[IPv4Network | IPv6Network]


def caller_address(peer: str | None, forwarded: Iterable[str], trusted: Networks) -> str:
    """Give the address that limits count for.

    Args:
        peer: Who connected.
        forwarded: The values of `X-Forwarded-For`; believed from trusted proxies alone, from the right.
        trusted: The networks of the operator's proxies.

    """
    address = _parse(peer or "")
    if address is None:
        return UNKNOWN
    hops = [hop for value in forwarded for hop in value.split(",")]
    while hops and _is_in(address, trusted):
        hop = _parse(hops.pop())
        if hop is None:
            break
        address = hop
    if isinstance(address, IPv6Address):
        return str(ipaddress.ip_network((int(address), IPV6_PREFIX), strict=False))
    return str(address)


def is_trusted(peer: str | None, trusted: Networks) -> bool:
    """Whether who connected is one of the operator's proxies."""
    address = _parse(peer or "")
    return address is not None and _is_in(address, trusted)


def _is_in(address: Address, networks: Networks) -> bool:
    return any(address in network for network in networks)


def _parse(text: str) -> Address | None:
    """Read an address, with or without brackets, port and zone; None when it is none."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
