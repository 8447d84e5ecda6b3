"""Base64 as callers write it."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.attachments.payload import HEAD_BYTES, open_payload

data = st.binary(min_size=1, max_size=5000)
BLANKS = st.text(alphabet=" \t\r\n\v\f", max_size=3)


def written(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def check(raw: bytes, text: str) -> None:
    payload = open_payload(text)
    assert payload.valid
    assert payload.text == written(raw)
    assert payload.size == len(raw)
    assert payload.head == raw[:HEAD_BYTES]


@given(data)
def test_standard_base64_is_passed_on_as_it_is(raw: bytes) -> None:
    text = written(raw)
    check(raw, text)
    assert open_payload(text).text is text


@given(data)
def test_missing_padding_is_put_back(raw: bytes) -> None:
    check(raw, written(raw).rstrip("="))


@given(data)
def test_the_alphabet_of_urls_is_understood(raw: bytes) -> None:
    check(raw, base64.urlsafe_b64encode(raw).decode())


@given(data, st.data())
def test_blanks_anywhere_are_left_out(raw: bytes, draw: st.DataObject) -> None:
    text = written(raw)
    for _ in range(5):
        place = draw.draw(st.integers(0, len(text)))
        text = text[:place] + draw.draw(BLANKS) + text[place:]
    check(raw, text)


@given(data)
def test_lines_as_mail_breaks_them(raw: bytes) -> None:
    check(raw, base64.encodebytes(raw).decode().replace("\n", "\r\n"))


@given(
    data,
    st.sampled_from(
        [
            "data:application/pdf;base64,",
            "DATA:;Base64,",
            "data:image/png;name=a.png;base64, ",
            "\n data:x;base64,",
        ]
    ),
)
def test_a_data_url_may_stand_in_front(raw: bytes, prefix: str) -> None:
    check(raw, prefix + written(raw))


@given(data, st.integers(1, 3))
def test_padding_that_is_wrong_is_refused(raw: bytes, change: int) -> None:
    body = written(raw).rstrip("=")
    padding = (-len(body) % 4 + change) % 4 or 4
    assert not open_payload(body + "=" * padding).valid


@given(data)
def test_bits_that_belong_to_no_byte_are_cleared(raw: bytes) -> None:
    text = written(raw)
    match = re.fullmatch(r"(.*)([^=])(=+)", text)
    if not match:
        return
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = alphabet[alphabet.index(match[2]) + 1]
    check(raw, match[1] + other + match[3])


@given(st.text(max_size=300))
def test_what_is_accepted_is_what_python_reads_after_folding(text: str) -> None:
    payload = open_payload(text)
    if payload.valid:
        assert written(base64.b64decode(payload.text, validate=True)) == payload.text
        assert len(base64.b64decode(payload.text)) == payload.size


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "AAAAA",
        "QUJD!",
        "QUJD\x00",
        "QUJDè",
        "QQ==QUJD",
        "Q=UJD",
        "QUJD=",
        "QUJD====",
        "===",
        "data:application/pdf,QUJD",
        "data:application/pdf;base64QUJD",
        "https://example.com/a.pdf",
        "C:\\a.pdf",
        "QUJ\N{NO-BREAK SPACE}D",
        "\N{ZERO WIDTH NO-BREAK SPACE}QUJD",
        "%PDF-1.7",
    ],
)
def test_what_is_not_base64_is_refused(text: str) -> None:
    assert not open_payload(text).valid


@pytest.mark.parametrize("text", ["", " \r\n", "data:application/pdf;base64,"])
def test_nothing_is_an_empty_file(text: str) -> None:
    payload = open_payload(text)
    assert payload.valid
    assert payload.size == 0
    assert payload.head == b""


def test_the_head_of_a_broken_text_can_still_be_recognised() -> None:
    payload = open_payload(written(b"%PDF-1.7\nabcdef") + "!!!!" + "A" * 5000)
    assert not payload.valid
    assert payload.head.startswith(b"%PDF-1.7")


def test_slices_meet_without_a_seam() -> None:
    raw = bytes(range(256)) * 4096
    text = written(raw)
    check(raw, "\r\n".join(text[place : place + 77] for place in range(0, len(text), 77)))
