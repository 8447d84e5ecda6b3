"""Whose address counts: never one that a caller could have made up."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from gateway.domain.addresses import UNKNOWN, caller_address, is_trusted

TRUSTED = tuple(ip_network(each) for each in ("10.0.0.0/8", "127.0.0.1/32", "2001:db8:ffff::/48"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.7, 10.2.3.4"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9", "198.51.100.7", "10.2.3.4"], "198.51.100.7"),
        ("10.0.0.1", ["10.9.9.9, 10.2.3.4"], "10.9.9.9"),
        ("10.0.0.1", ["198.51.100.7:4711"], "198.51.100.7"),
        ("10.0.0.1", ["198.51.100.7, unknown"], "10.0.0.1"),
        ("10.0.0.1", [" , "], "10.0.0.1"),
        ("10.0.0.1", ["[2001:db8:1:2:3::4]:4711"], "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("::ffff:192.0.2.1", ["198.51.100.7"], "192.0.2.1"),
        ("2001:db8:ffff::1", ["2001:db8:1:2:ffff::1"], "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", [], "2001:db8:1:2::/64"),
        ("fe80::1%eth0", [], "fe80::/64"),
        (None, ["198.51.100.7"], UNKNOWN),
        ("", [], UNKNOWN),
    ],
)
def test_the_callers_address(peer: str | None, forwarded: list[str], address: str) -> None:
    assert caller_address(peer, forwarded, TRUSTED) == address


def test_nobody_is_believed_without_trusted_proxies() -> None:
    assert caller_address("127.0.0.1", ["198.51.100.7"], ()) == "127.0.0.1"


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("192.0.2.1", False), ("", False), (None, False)],
)
def test_a_proxy_is_known_by_its_network(peer: str | None, trusted: bool) -> None:
    assert is_trusted(peer, TRUSTED) is trusted
