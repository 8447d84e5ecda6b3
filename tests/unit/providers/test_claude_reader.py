"""What Claude may say and the fake doesn't: broken or missing parts, and searches that end in the next reply."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from gateway.domain.completion import WebCitation
from gateway.domain.events import Finished, Piece, ProviderEvent, Searched, Searching, Stop
from gateway.domain.usage import Usage
from gateway.ports import ProviderError, Trouble
from gateway.providers.claude.events import ClaudeReader
from gateway.providers.claude.models import most_output_tokens
from gateway.providers.claude.request import thinking_budget

CALL = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "ora"}}
RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "s1",
    "content": [
        {"type": "web_search_result", "url": "https://a.it/", "title": "A", "encrypted_content": "Eq"}
    ],
}
FAILED = RESULT | {"content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}}
TEXT = {"type": "text", "text": "Ecco."}


def reader(*, searching: bool = True) -> ClaudeReader:
    return ClaudeReader(None, documents=("a.pdf",), searching=searching)


def message(*content: object, stop: str = "end_turn", **usage: object) -> bytes:
    fields = {"type": "message", "content": content, "stop_reason": stop, "usage": usage}
    return msgspec.json.encode(fields)


def events_of(*blocks: dict[str, Any], stop: str = "end_turn", **usage: object) -> Iterable[dict[str, Any]]:
    """A stream whose blocks are whole where they begin, as they may be."""
    yield {
        "type": "message_start",
        "message": {"type": "message", "content": [], "usage": {"input_tokens": 7}},
    }
    for index, block in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}
    yield {"type": "message_stop"}


def fed(to: ClaudeReader, events: Iterable[dict[str, Any]]) -> list[ProviderEvent]:
    return [told for event in events for told in to.event(msgspec.json.encode(event))]


def texts_of(events: Iterable[ProviderEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, Piece))


def test_without_a_count_the_searches_that_found_something_count() -> None:
    whole, pieces = reader(), reader()

    list(whole.whole(message(CALL, RESULT, FAILED, TEXT, input_tokens=7, output_tokens=2)))
    fed(pieces, events_of(CALL, RESULT, FAILED, TEXT, output_tokens=2))

    assert whole.usage == pieces.usage == Usage(7, 2, searches=1)
    assert whole.searched == pieces.searched == 2


@pytest.mark.parametrize("count", [0, 5])
def test_claudes_own_count_is_believed(count: int) -> None:
    whole, pieces = reader(), reader()
    counted = {"web_search_requests": count}

    list(whole.whole(message(CALL, RESULT, TEXT, server_tool_use=counted)))
    fed(pieces, events_of(CALL, RESULT, TEXT, server_tool_use=counted))

    assert whole.usage.searches == pieces.usage.searches == count


def test_a_search_may_end_in_the_reply_that_continues() -> None:
    for streamed in (False, True):
        reading = reader()
        if streamed:
            first = fed(reading, events_of(TEXT, CALL, stop="pause_turn"))
            assert reading.content == (TEXT, CALL)
            reading.resume()
            second = fed(reading, events_of(RESULT, TEXT))
        else:
            first = list(reading.whole(message(TEXT, CALL, stop="pause_turn")))
            assert reading.content == (TEXT, CALL)
            reading.resume()
            second = list(reading.whole(message(RESULT, TEXT)))

        assert Searching("s1", "ora") in first
        assert Searched("s1") in second
        assert texts_of((*first, *second)) == "Ecco.Ecco."
        assert isinstance(second[-1], Finished)
        assert second[-1].stop is Stop.END


def test_a_search_without_a_query_is_told_all_the_same() -> None:
    told = list(reader().whole(message(CALL | {"input": {}}, RESULT, TEXT)))

    assert told[0] == Searching("s1", "")


def test_who_may_not_search_is_told_of_no_search() -> None:
    whole, pieces = reader(searching=False), reader(searching=False)

    for told in (list(whole.whole(message(CALL, RESULT, TEXT))), fed(pieces, events_of(CALL, RESULT, TEXT))):
        assert not [event for event in told if isinstance(event, Searching | Searched)]
        assert texts_of(told) == "Ecco."


def test_an_input_that_is_none_is_no_answer() -> None:
    reading = reader()
    begun = {"type": "content_block_start", "content_block": CALL | {"input": {}}}
    part = {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": '{"query'}}

    with pytest.raises(ProviderError) as raised:
        fed(reading, [begun, part, {"type": "content_block_stop"}])

    assert raised.value.trouble is Trouble.FAULTY


@pytest.mark.parametrize("block", [None, 3, {}, {"type": 1}, {"type": "text", "text": []}])
def test_a_block_that_is_none_is_no_answer(block: object) -> None:
    begun = msgspec.json.encode({"type": "content_block_start", "content_block": block})

    with pytest.raises(ProviderError) as whole:
        reader().whole(message(block))
    with pytest.raises(ProviderError) as pieces:
        reader().event(begun)

    assert whole.value.trouble is pieces.value.trouble is Trouble.FAULTY


@pytest.mark.parametrize(
    "citation",
    [
        None,
        7,
        {},
        {"type": "page_location"},
        {"type": "page_location", "document_index": 0, "cited_text": "x"},
        {"type": "page_location", "document_index": -1, "start_page_number": 1},
        {"type": "page_location", "document_index": "0", "start_page_number": 1},
        {"type": "web_search_result_location", "cited_text": "x"},
        {"type": "new_location", "url": "https://a.it/"},
    ],
)
def test_a_citation_that_is_none_spoils_no_answer(citation: object) -> None:
    good = {"type": "web_search_result_location", "url": "https://a.it/", "title": None, "cited_text": "c"}
    block = TEXT | {"citations": [citation, good]}
    parts = [{"type": "citations_delta", "citation": one} for one in (citation, good)]
    start, *rest = events_of(TEXT)
    deltas = [{"type": "content_block_delta", "delta": part} for part in parts]

    whole = list(reader().whole(message(block)))
    pieces = fed(reader(), [start, rest[0], *deltas, *rest[1:]])

    for told in (whole, pieces):
        assert isinstance(told[-1], Finished)
        assert told[-1].citations == (WebCitation("https://a.it/", "", "c"),)


def test_what_older_models_write_at_most() -> None:
    assert most_output_tokens("claude-opus-4-1-20250805") == 32_000
    assert most_output_tokens("claude-sonnet-4-20250514") == 64_000


@pytest.mark.parametrize(
    ("wanted", "tokens", "budget"), [(10, 11, 10), (10, 10, 5), (10, 0, 0), (10, -4, -2)]
)
def test_a_thinking_budget_leaves_something_for_the_answer(wanted: int, tokens: int, budget: int) -> None:
    assert thinking_budget(wanted, tokens) == budget
