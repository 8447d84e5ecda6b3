"""`pepper project … --notify-url` and `pepper project notices`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.settings import SettingError, read_settings
from tests.e2e.test_cli import Pepper

URL = "https://esempio.it/pepper/avvisi"
SIGNING = re.compile(r"avs_[A-Za-z0-9_-]{43}")


@pytest.fixture
def pepper(tmp_path: Path) -> Pepper:
    pepper = Pepper(tmp_path)
    pepper.done("migrate")
    return pepper


def test_an_address_and_its_secret(pepper: Pepper) -> None:
    added = pepper.told("project", "add", "negozio", "--notify-url", URL)
    assert list(added) == ["progetto", "chiave", "avviso_segreto"]
    assert SIGNING.fullmatch(added["avviso_segreto"])
    assert pepper.project("negozio")["avviso_url"] == URL
    # The same again: another secret.
    changed = pepper.told("project", "set", "negozio", "--notify-url", f" {URL} ")
    assert list(changed) == ["ok", "avviso_segreto"]
    assert SIGNING.fullmatch(changed["avviso_segreto"])
    assert changed["avviso_segreto"] != added["avviso_segreto"]
    assert pepper.told("project", "set", "negozio", "--per-hour", "7") == {"ok": True}
    assert pepper.project("negozio")["avviso_url"] == URL
    assert pepper.told("project", "set", "negozio", "--notify-url", "none") == {"ok": True}
    assert "avviso_url" not in pepper.project("negozio")
    shown = pepper.done("project", "set", "negozio", "--notify-url", URL)
    assert len(SIGNING.findall(shown)) == 1
    assert SIGNING.findall(pepper.done("project", "list")) == []
    stored = b"".join(path.read_bytes() for path in pepper.data.iterdir() if path.is_file())
    for secret in (added["avviso_segreto"], changed["avviso_segreto"], *SIGNING.findall(shown)):
        assert secret.encode() not in stored
    assert pepper.told("project", "remove", "negozio", "--yes") == {"ok": True}


def test_without_an_address_nothing_is_different(pepper: Pepper) -> None:
    assert list(pepper.told("project", "add", "negozio", "--notify-url", "none")) == ["progetto", "chiave"]
    assert "avviso_url" not in pepper.project("negozio")
    assert pepper.told("project", "notices", "negozio") == []
    assert pepper.done("project", "notices", "negozio").split()[:2] == ["NOTICE", "BATCH"]
    assert "no project altro" in pepper.refused("project", "notices", "altro")
    assert "no project altro" in pepper.refused("project", "set", "altro", "--notify-url", URL)


@pytest.mark.parametrize(
    "url", ["", "esempio.it", "https://a:b@esempio.it/", "https://127.1/", "ftp://a.it/"]
)
def test_what_is_no_address(pepper: Pepper, url: str) -> None:
    assert "--help)" in pepper.refused("project", "add", "negozio", "--notify-url", url, status=2)


def test_plain_http_is_for_tests(pepper: Pepper) -> None:
    plain = "http://127.0.0.1:8000/"
    assert "https://" in pepper.refused("project", "add", "negozio", "--notify-url", plain)
    pepper.done("project", "add", "negozio")
    assert "https://" in pepper.refused("project", "set", "negozio", "--notify-url", plain)
    assert "avviso_url" not in pepper.project("negozio")
    pepper.under(PEPPER_WEBHOOK_PRIVATE="on").done("project", "set", "negozio", "--notify-url", plain)
    assert pepper.project("negozio")["avviso_url"] == plain


def test_the_setting_is_off_by_default() -> None:
    assert read_settings({}).webhook_private is False
    assert read_settings({"PEPPER_WEBHOOK_PRIVATE": "on"}).webhook_private is True
    for wrong in ("yes", "1", "ON"):
        with pytest.raises(SettingError, match="on or off"):
            read_settings({"PEPPER_WEBHOOK_PRIVATE": wrong})
