"""Headers as Dilem takes them: once, exactly, and from no foreign page."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dilem.errors import DilemFailure
from gateway.routes.dilem.checks import (
    bearer_token,
    case_of,
    is_encoded,
    is_foreign,
    is_json,
    require_no_cookies,
    required_case,
)
from gateway.routes.exchange import BodyBudget, Exchange

BASE = "https://dilem.example"


def exchange(*headers: tuple[str, str]) -> Exchange:
    async def unused(*_: Any) -> Any:
        raise AssertionError

    sent = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    return Exchange({"method": "POST", "headers": sent}, unused, unused, BodyBudget())


@pytest.mark.parametrize(
    ("base", "origins", "foreign"),
    [
        (BASE, [], False),
        (BASE, [BASE], False),
        (BASE, ["https://DILEM.example"], False),
        (BASE, ["https://dilem.example:443"], False),
        (BASE, ["https://dilem.example:8443"], True),
        (BASE, ["http://dilem.example"], True),
        (BASE, ["https://dilem.example.evil.tld"], True),
        (BASE, ["https://evil-dilem.example"], True),
        (BASE, ["https://sub.dilem.example"], True),
        (BASE, ["https://dilem.example/"], True),
        (BASE, ["https://dilem.example@evil.tld"], True),
        (BASE, ["https://evil.tld#https://dilem.example"], True),
        (BASE, ["dilem.example"], True),
        (BASE, ["null"], True),
        (BASE, [""], True),
        (BASE, [BASE, BASE], True),
        (BASE, [f"{BASE}, {BASE}"], True),
        ("http://127.0.0.1:8080", ["http://127.0.0.1:8080"], False),
        ("http://127.0.0.1:8080", ["http://127.0.0.1"], True),
        ("http://[::1]:8080", ["http://[::1]:8080"], False),
        ("http://localhost:80", ["http://localhost"], False),
    ],
)
def test_origins(base: str, origins: list[str], foreign: bool) -> None:
    assert is_foreign(exchange(*(("Origin", each) for each in origins)), base) is foreign


def test_any_cookie_is_one_too_many() -> None:
    require_no_cookies(exchange())
    require_no_cookies(exchange(("Cookie", ""), ("Cookie", " ")))
    for cookies in (["a=b"], ["", "a"], ["="]):
        with pytest.raises(DilemFailure) as raised:
            require_no_cookies(exchange(*(("Cookie", each) for each in cookies)))
        assert raised.value.code.code == "cookies_forbidden"


@pytest.mark.parametrize(
    ("values", "token"),
    [
        ([], None),
        (["Bearer abc"], "abc"),
        (["bearer  abc"], "abc"),
        (["BEARER abc"], "abc"),
        ([""], ""),
        (["Bearer"], ""),
        (["Bearerabc"], ""),
        (["Basic abc"], ""),
        (["abc"], ""),
        (["Bearer\tabc"], ""),
        (["Bearer abc", "Bearer abc"], ""),
    ],
)
def test_the_token(values: list[str], token: str | None) -> None:
    assert bearer_token(exchange(*(("Authorization", each) for each in values))) == token


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([""], "case_id_required"),
        ([" "], "case_id_invalid"),
        (["a b"], "case_id_invalid"),
        (["é"], "case_id_invalid"),
        (["a" * 81], "case_id_invalid"),
        (["a", "a"], "case_id_invalid"),
        (["", ""], "case_id_invalid"),
        (["a,b"], "case_id_invalid"),
    ],
)
def test_bad_case_ids(values: list[str], code: str) -> None:
    with pytest.raises(DilemFailure) as raised:
        case_of(exchange(*(("X-Dilem-Case-ID", each) for each in values)))
    assert raised.value.code.code == code


def test_good_case_ids() -> None:
    assert case_of(exchange()) is None
    for good in ("a", "A-_9", "a" * 80):
        assert required_case(exchange(("x-dilem-case-id", good))) == good
    with pytest.raises(DilemFailure) as raised:
        required_case(exchange())
    assert raised.value.code.code == "case_id_required"


@pytest.mark.parametrize(
    ("values", "fine"),
    [
        (["application/json"], True),
        (["Application/JSON"], True),
        (["application/json; charset=utf-8"], True),
        (['application/json;charset="UTF-8"; v=1'], True),
        (["application/json; charset=latin-1"], False),
        (["application/json; charset="], False),
        (["text/plain"], False),
        (["application/jsonp"], False),
        (["application/problem+json"], False),
        ([""], False),
        ([], False),
        (["application/json", "application/json"], False),
    ],
)
def test_media_types(values: list[str], fine: bool) -> None:
    assert is_json(exchange(*(("Content-Type", each) for each in values))) is fine


@pytest.mark.parametrize(
    ("values", "encoded"),
    [
        ([], False),
        ([""], False),
        (["identity"], False),
        (["Identity, identity"], False),
        (["gzip"], True),
        (["identity", "br"], True),
        (["identity,gzip"], True),
        (["made-up"], True),
    ],
)
def test_codings(values: list[str], encoded: bool) -> None:
    assert is_encoded(exchange(*(("Content-Encoding", each) for each in values))) is encoded
