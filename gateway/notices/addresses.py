"""Which network addresses are somebody else's: everything that leads to this machine, its network or its cloud is not."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

_NAT64 = IPv6Network("64:ff9b::/96")
"""An IPv4 address in the last 32 bits, translated on the way."""
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NEVER_V4 = tuple(
    IPv4Network(network)
    for network in (
        "100.64.0.0/10",  # a carrier's own; also a cloud's metadata
        "168.63.129.16/32",  # a cloud's own services, behind a public address
        "192.0.0.0/24",  # protocol assignments; also a cloud's metadata
        "192.88.99.0/24",  # relays into 6to4
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_NEVER_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # Teredo, which carries an IPv4 address, and other protocols
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which carries an IPv4 address
        "3fff::/20",  # documentation
    )
)


def is_public(address: str) -> bool:
    """Whether a network address, as the resolver gives it, is a public one."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        carried = _carried(found)
        return _is_public_v4(carried) if carried is not None else _is_public_v6(found)
    return _is_public_v4(found)


def _carried(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def _is_public_v4(address: IPv4Address) -> bool:
    return address.is_global and not any(address in network for network in _NEVER_V4)


def _is_public_v6(address: IPv6Address) -> bool:
    if address.scope_id is not None or address not in _GLOBAL_UNICAST:
        return False
    return address.is_global and not any(address in network for network in _NEVER_V6)
