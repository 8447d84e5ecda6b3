"""The names this server goes by: a page of another name that was pointed here (DNS rebinding) gets nothing."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from gateway.dilem import errors
from gateway.dilem.errors import DilemFailure
from gateway.dilem.policy import Policy
from gateway.routes.exchange import Exchange

LOCAL = "localhost"
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?", re.IGNORECASE)


def require_known_host(exchange: Exchange, policy: Policy) -> None:
    """Refuse a Host header that names another server: 403 `origin_rejected`.

    Known are the public origin's name, `localhost`, and every address, because only names can be pointed elsewhere. What
    a trusted proxy passes on it has chosen itself, under whatever name it knows this server.
    """
    hosts = exchange.header_values(b"host")
    if not hosts or _is_trusted(exchange.client, policy):
        return
    if len(hosts) > 1 or not _is_known(hosts[0], policy.base_url):
        raise DilemFailure(errors.ORIGIN_REJECTED, "The Host header does not name this server.")


def _is_known(host: str, base_url: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found[1].lower().strip("[]")
    return name in {LOCAL, urlsplit(base_url).hostname} or _address(name) is not None


def _is_trusted(peer: str | None, policy: Policy) -> bool:
    address = _address(peer or "")
    return address is not None and any(address in network for network in policy.trusted_proxies)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
