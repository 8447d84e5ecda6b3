"""The parser gives the same events for the same bytes, however they are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.providers.sse import EventParser

STREAM = (
    b"\xef\xbb\xbf: un commento\r\n"
    b'event: inizio\r\ndata: {"a": "perch\xc3\xa9 \xf0\x9f\x8c\xb6"}\r\n\r\n'
    b"\n\n\r\n"
    b"data: prima riga\ndata:seconda riga\ndata\ndata:  con uno spazio\n\n"
    b"id: 7\nretry: 10\n\n"
    b"data: solo CR\r\rdata: ultimo\n\n"
    b"dataset: no\nevent:\n data: no\n\n"
    b"data: incompleto\n"
)
EVENTS = [
    '{"a": "perché 🌶"}'.encode(),
    b"prima riga\nseconda riga\n\n con uno spazio",
    b"solo CR",
    b"ultimo",
]


def parsed(*chunks: bytes) -> list[bytes]:
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    return [data[start:end] for start, end in pairwise([0, *sorted(places), len(data)])]


def test_in_one_piece() -> None:
    assert parsed(STREAM) == EVENTS


def test_byte_by_byte() -> None:
    assert parsed(*(bytes([byte]) for byte in STREAM)) == EVENTS


@pytest.mark.parametrize("place", range(len(STREAM)))
def test_in_two_pieces(place: int) -> None:
    assert parsed(STREAM[:place], STREAM[place:]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM))))
def test_in_any_pieces(places: list[int]) -> None:
    assert parsed(*cut(STREAM, places)) == EVENTS


lines = st.one_of(
    st.just(b""),
    st.just(b": commento"),
    st.text("ab :à🌶", max_size=6).map(lambda text: b"data:" + text.encode()),
    st.text("dat: e", max_size=8).map(str.encode),
)


@given(st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=12), st.data())
def test_any_stream_in_any_pieces(stream: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    # A line feed after a bare CR would be its other half.
    whole = b"".join(line + end for line, end in stream).replace(b"\r\n", b"\n")
    places = data.draw(st.lists(st.integers(0, len(whole))))

    assert parsed(*cut(whole, places)) == parsed(whole)


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1), max_size=5
    )
)
def test_what_is_written_is_read(texts: list[str]) -> None:
    stream = "".join(f"event: x\r\ndata: {text}\r\n\r\n" for text in texts).encode()

    assert parsed(stream) == [text.encode() for text in texts]


def test_an_event_is_given_as_soon_as_it_is_complete() -> None:
    parser = EventParser()

    assert parser.feed(b"data: a\n\nda") == [b"a"]
    assert parser.feed(b"ta: b\n\n") == [b"b"]
    # The LF of a CRLF that is still on its way changes nothing any more.
    assert parser.feed(b"data: c\r\n\r\n") == [b"c"]


def test_a_long_line_in_many_pieces_is_no_work() -> None:
    parser = EventParser()
    parser.feed(b"data: ")
    for _ in range(2_000):
        assert parser.feed(b"x" * 16_384) == []

    (event,) = parser.feed(b"\n\n")

    assert len(event) == 2_000 * 16_384
