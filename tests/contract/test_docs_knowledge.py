"""The page about the knowledge says what the code does: numbers, fields, replies."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from gateway.chain import rate, retrieval
from gateway.domain import knowledge
from gateway.domain.knowledge import Document, KnowledgeState, Shelf, Uploaded
from gateway.knowledge.embedding import OpenAIEmbedder
from gateway.knowledge.local import REMEDY
from gateway.routes.pepper.knowledge import BODY_LIMIT
from gateway.wire.knowledge import ACTIONS, READERS, encode_shelf, encode_uploaded, knowledge_note
from gateway.wire.replies import SourceReply
from tests.docs import names, page_text, prose, section

PAGE = "knowledge.md"
LISTING = Document(
    id=12,
    name="Listino 2026",
    version=1,
    passages=31,
    characters=24_310,
    embedder="prova",
    uploaded_at=datetime(2026, 3, 3, 21, 10, 3, tzinfo=UTC),
)


@pytest.mark.parametrize(
    ("page", "fact"),
    [
        (PAGE, f"the passages most like it, {knowledge.MOST_PASSAGES} at most"),
        (PAGE, f"1 to {knowledge.MAX_DOCUMENT_NAME} characters"),
        (PAGE, f"1 to {knowledge.MAX_DOCUMENT_CHARACTERS:,} Unicode characters"),
        (PAGE, f"more than {knowledge.MAX_DOCUMENT_CHARACTERS:,} characters"),
        (PAGE, f"a body of more than {BODY_LIMIT:,} bytes"),
        (PAGE, f"the project has {knowledge.MAX_DOCUMENTS} documents"),
        (PAGE, f"more than {rate.CALLS_PER_MINUTE} calls a minute"),
        (PAGE, f"within {retrieval.RETRIEVAL_SECONDS:.0f} seconds"),
        (PAGE, f"`{OpenAIEmbedder.model}`"),
        (PAGE, f"`{REMEDY}`"),
        ("contract.md", f"{BODY_LIMIT:,} bytes on `/conoscenza.php`"),
        ("operating.md", f"without them after {retrieval.RETRIEVAL_SECONDS:.0f} seconds at most"),
        ("operating.md", f"reserves {retrieval.MOST_BLOCK_BYTES:,} tokens more"),
        ("command-line.md", f"up to {knowledge.MAX_DOCUMENT_CHARACTERS:,} characters"),
    ],
)
def test_numbers_are_those_of_the_code(page: str, fact: str) -> None:
    assert fact in prose(page)


def _example(kind: str) -> Any:
    [block] = re.findall(rf"^```json {kind}\n(.*?)^```$", page_text(PAGE), re.MULTILINE | re.DOTALL)
    return json.loads(block)


def test_the_replies_are_as_they_are_told() -> None:
    assert json.loads(encode_uploaded(Uploaded(LISTING, replaced=False))) == _example("uploaded")
    shelf = encode_shelf(Shelf(1, (LISTING,)), ZoneInfo("Europe/Rome"))
    assert json.loads(shelf) == _example("listed")


def test_the_actions_and_their_fields_are_documented() -> None:
    page = section(page_text(PAGE), "## The three actions")
    assert names(page.partition("### ")[0]) == ["azione", "nome", "testo", "documento"]
    assert re.findall(r"^### `(\w+)`$", page, re.MULTILINE) == list(ACTIONS)


def test_a_source_has_its_fields() -> None:
    [told] = re.findall(r'^ {4}(\{"documento": .*\})$', page_text(PAGE), re.MULTILINE)
    assert tuple(json.loads(told)) == SourceReply.__struct_encode_fields__


@pytest.mark.parametrize("reader", READERS)
def test_the_note_says_who_reads_and_what_is_wrong(reader: str) -> None:
    fine = KnowledgeState(documents=3, passages=9, reader=reader, ready=True, outdated=0)
    assert knowledge_note(fine) == READERS[reader]
    assert ("passano anche da OpenAI" in READERS[reader]) is (reader == "openai")
    worse = [
        knowledge_note(msgspec.structs.replace(fine, **change))
        for change in ({"ready": False}, {"outdated": 1}, {"outdated": 2})
    ]
    assert len({READERS[reader], *worse}) == 4
