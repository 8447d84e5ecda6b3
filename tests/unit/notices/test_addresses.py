"""Where notices may go: addresses judged by their letters, and by where they lead."""

from __future__ import annotations

import pytest

from gateway.domain.notices import RETRY_SECONDS, check_notice_url, is_plain, next_attempt
from gateway.notices.addresses import is_public
from tests.unit.storage.stores import NOW

GOOD = [
    "https://esempio.it/pepper",
    "https://esempio.it",
    "https://esempio.it:8443/a/b?c=d&e=f%20g",
    "https://xn--perch-fsa.it./x",
    "https://93.184.216.34/x",
    "https://[2606:4700::1111]/x",
    "http://esempio.it/x",  # decided where the settings are known
    "https://a_b.esempio.it/x",
]
BAD = [
    "",
    "esempio.it",
    "ftp://esempio.it/",
    "file:///etc/passwd",
    "https://",
    "https:///x",
    "https://utente:parola@esempio.it/",
    "https://@esempio.it/",
    "https://esempio.it@127.0.0.1/",
    "https://esempio.it:0/",
    "https://esempio.it:/",
    "https://esempio.it:99999/",
    "https://esempio.it/#x",
    "https://esempio.it/perché",
    "https://perché.it/",
    "https://esempio.it/a b",
    "https://esempio.it\\@127.0.0.1/",
    "https://esempio..it/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.1/",
    "https://0177.0.0.1/",
    "https://127.0.0.1./",
    "https://esempio.0x/",
    "https://[::1/",
    "https://[fe80::1%25eth0]/",
    "https://[::ffff:1.2.3]/",
    "https://esempio.it/\r\nX: y",
    "https://" + "a" * 64 + ".it/",
    "https://esempio.it/" + "a" * 2_040,
]


@pytest.mark.parametrize("url", GOOD)
def test_good_addresses(url: str) -> None:
    assert check_notice_url(url) == url


@pytest.mark.parametrize("url", BAD)
def test_bad_addresses(url: str) -> None:
    with pytest.raises(ValueError, match="takes"):
        check_notice_url(url)


def test_plain_http_is_known() -> None:
    assert is_plain("http://esempio.it/")
    assert is_plain("HTTP://esempio.it/")
    assert not is_plain("https://esempio.it/")


@pytest.mark.parametrize(
    "address",
    [
        "93.184.216.34",
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "2a00:1450:4002::1",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
    ],
)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.9",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8",
        "100::1",
        "2001::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:808:808::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1111%eth0",
        "fec0::1",
        "ff02::1",
        "esempio.it",
        "",
    ],
)
def test_other_addresses(address: str) -> None:
    assert not is_public(address)


def test_pauses_grow_and_end() -> None:
    pauses = [next_attempt(NOW, attempts) for attempts in range(1, len(RETRY_SECONDS) + 1)]
    assert [(at - NOW).total_seconds() for at in pauses if at] == list(RETRY_SECONDS)
    assert list(RETRY_SECONDS) == sorted(RETRY_SECONDS)
    assert next_attempt(NOW, len(RETRY_SECONDS) + 1) is None
