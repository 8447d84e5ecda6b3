"""The Italian pages say what the code says, and what the English ones say: fields, numbers, codes, examples, order."""

from __future__ import annotations

import re

import pytest

from gateway.chain import admit, memory, rate, retrieval
from gateway.domain import calls, knowledge, limits, notices
from gateway.domain.batches import BatchState
from gateway.domain.errors import FAULTS
from gateway.ports import CLAIM_SECONDS
from gateway.recipe_files import LIST_LIMITS, NO_CACHE
from gateway.routes import exchange, responses
from gateway.routes.pepper.knowledge import BODY_LIMIT
from gateway.wire.capabilities import LimitsReply
from gateway.wire.knowledge import ACTIONS
from gateway.wire.replies import MetaReply
from gateway.wire.requests import AttachmentBody, CompletionBody
from tests.docs import DOCS, names, page_text, prose, section

TWINS = {
    "it/contratto.md": "contract.md",
    "it/documenti.md": "attachments.md",
    "it/ricerca.md": "web-search.md",
    "it/differito.md": "deferred.md",
    "it/conoscenza.md": "knowledge.md",
    "it/client.md": "clients.md",
    "it/errori.md": "errors.md",
    "it/primi-passi.md": "quick-start.md",
}
CLOSE = ("it/contratto.md", "it/documenti.md", "it/ricerca.md", "it/differito.md", "it/conoscenza.md")
"""Those that are the English page in Italian; the others are shorter."""
ENGLISH_ALONE = {
    "it/contratto.md": "## Clients",
    "it/conoscenza.md": "## For operators",
    "it/ricerca.md": "## Domains",
}
"""Chapters that the Italian page leaves to the English one."""


def test_every_italian_page_has_its_english_one() -> None:
    assert {str(page.relative_to(DOCS)) for page in (DOCS / "it").glob("*.md")} == set(TWINS)
    assert all((DOCS / page).is_file() for page in TWINS.values())


def _number(number: float) -> str:
    return f"{number:,.0f}".replace(",", ".")


@pytest.mark.parametrize(
    ("page", "fact"),
    [
        ("it/contratto.md", f"da 1 a {_number(limits.MAX_CONTENT_CHARACTERS)} caratteri Unicode"),
        ("it/contratto.md", f"Da 1 a {limits.MAX_IDEMPOTENCY_KEY_CHARACTERS} caratteri ASCII stampabili"),
        ("it/contratto.md", f"fino a {limits.MAX_ATTACHMENTS} [PDF e foto]"),
        ("it/contratto.md", f"entro {exchange.BODY_SECONDS:.0f} secondi"),
        ("it/contratto.md", f"dopo {responses.PING_SECONDS:.0f} secondi di silenzio"),
        ("it/contratto.md", f"niente per {responses.READER_SECONDS:.0f} secondi"),
        ("it/contratto.md", f"entro {calls.TOTAL_SECONDS:.0f} secondi in tutto"),
        ("it/contratto.md", f"fino a {admit.ROOM_SECONDS:.0f} secondi, poi `429 troppe_richieste`"),
        ("it/contratto.md", f"fino a {admit.BUSY_SECONDS:.0f} secondi, poi `503`"),
        ("it/contratto.md", f"libera entro {CLAIM_SECONDS} secondi"),
        ("it/contratto.md", f"`/conoscenza.php` insieme: {rate.CALLS_PER_MINUTE} al minuto"),
        ("it/contratto.md", f"{_number(BODY_LIMIT)} byte su `/conoscenza.php`"),
        ("it/contratto.md", f"in circa {_number(memory.HISTORY_TOKENS)} token"),
        ("it/contratto.md", f"nessuno tocca per {memory.RETENTION.days} giorni"),
        ("it/contratto.md", f'"{NO_CACHE}": true'),
        *(
            ("it/contratto.md", f"da {fewest} a {most} nomi diversi, fino a {length} caratteri")
            for fewest, most, length in LIST_LIMITS.values()
        ),
        ("it/documenti.md", f"da 1 a {_number(limits.MAX_ATTACHMENT_NAME_CHARACTERS)} caratteri"),
        ("it/documenti.md", f"| file in una richiesta | {limits.MAX_ATTACHMENTS} |"),
        ("it/documenti.md", f"| un PDF | {limits.MAX_DOCUMENT_MB} MB |"),
        ("it/documenti.md", f"| una foto | {limits.MAX_IMAGE_MB} MB |"),
        ("it/documenti.md", f"| tutti i file insieme | {limits.MAX_ATTACHMENTS_MB} MB |"),
        (
            "it/documenti.md",
            f"{limits.MAX_DOCUMENT_PAGES}; {limits.MAX_DOCUMENT_PAGES_ECONOMY} con una ricetta",
        ),
        ("it/documenti.md", f"{_number(limits.BYTES_PER_MB)} byte del file"),
        ("it/documenti.md", f"al massimo {_number(limits.MAX_ADDRESS_CHARACTERS)} caratteri"),
        ("it/differito.md", f"fino a {limits.MAX_DEFERRED_CONTENTS} testi in una richiesta"),
        ("it/differito.md", f"| da 1 a {limits.MAX_DEFERRED_CONTENTS} testi, ognuno come `contenuto`"),
        ("it/differito.md", f"| {limits.MAX_OPEN_BATCHES} pratiche aperte:"),
        ("it/conoscenza.md", f"al massimo {knowledge.MOST_PASSAGES}, vanno al modello"),
        ("it/conoscenza.md", f"da 1 a {knowledge.MAX_DOCUMENT_NAME} caratteri"),
        ("it/conoscenza.md", f"da 1 a {_number(knowledge.MAX_DOCUMENT_CHARACTERS)} caratteri Unicode"),
        ("it/conoscenza.md", f"più di {_number(knowledge.MAX_DOCUMENT_CHARACTERS)} caratteri"),
        ("it/conoscenza.md", f"un corpo di più di {_number(BODY_LIMIT)} byte"),
        ("it/conoscenza.md", f"il progetto ha {knowledge.MAX_DOCUMENTS} documenti"),
        ("it/conoscenza.md", f"più di {rate.CALLS_PER_MINUTE} chiamate al minuto"),
        ("it/conoscenza.md", f"entro {retrieval.RETRIEVAL_SECONDS:.0f} secondi"),
    ],
)
def test_numbers_are_those_of_the_code(page: str, fact: str) -> None:
    assert fact in prose(page)


def test_the_pauses_between_notices_are_told() -> None:
    assert notices.RETRY_SECONDS == (10, 60, 300, 1_800, 7_200, 21_600)
    told = "dopo 10 secondi, 1 minuto, 5 minuti, 30 minuti, 2 ore e 6 ore"
    assert told in prose("it/differito.md")


# --- fields ---------------------------------------------------------------------------------------------------------


def test_the_fields_are_documented_in_their_order() -> None:
    contract = page_text("it/contratto.md")
    request = names(section(contract, "## La richiesta").partition("### ")[0])
    assert set(request) == set(CompletionBody.__struct_encode_fields__)
    told = [name for name in names(section(contract, "## La risposta")) if re.fullmatch(r"[a-z_]+", name)]
    assert told == list(MetaReply.__struct_encode_fields__)
    capabilities = section(contract, "## Le capacità")
    assert [name for name in LimitsReply.__struct_encode_fields__ if f"`{name}`" not in capabilities] == []
    files = names(page_text("it/documenti.md").partition("## I limiti")[0])
    assert set(files) == set(AttachmentBody.__struct_encode_fields__)
    states = section(page_text("it/differito.md"), "## Ritirare").partition("```json")[0]
    assert names(states) == [state.value for state in BatchState]
    actions = section(page_text("it/conoscenza.md"), "## Le tre azioni")
    assert names(actions.partition("### ")[0]) == ["azione", "nome", "testo", "documento"]
    assert re.findall(r"^### `(\w+)`$", actions, re.MULTILINE) == list(ACTIONS)


def test_no_code_is_invented() -> None:
    """Whatever follows an HTTP status is a code of that status."""
    known = {(fault.status, fault.code) for fault in FAULTS}
    for page in TWINS:
        for status, code in re.findall(r"`(4\d\d|5\d\d) ([a-z_]+)`", prose(page)):
            assert (int(status), code) in known, (page, status, code)


# --- the same as in English -----------------------------------------------------------------------------------------


def _blocks(page: str) -> list[str]:
    return re.findall(r"^(```.*?^```)$", page_text(page), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", CLOSE)
def test_the_examples_are_those_of_the_english_page(page: str) -> None:
    """All of them, in their order, but for the programs that only the English page shows."""
    english = [block for block in _blocks(TWINS[page]) if not re.match(r"```(php|python|javascript)", block)]
    if page == "it/conoscenza.md":
        english = [block for block in english if "pepper knowledge" not in block]
    assert _blocks(page) == english


@pytest.mark.parametrize("page", CLOSE)
def test_the_replies_are_those_of_the_english_page(page: str) -> None:
    """Row for row, the tables name the same statuses and codes."""
    italian, english = (_replies(each) for each in (page, TWINS[page]))
    assert italian == english


def _replies(page: str) -> list[list[str]]:
    rows = [line for line in page_text(page).splitlines() if line.startswith("| ")]
    found = [re.findall(r"`((?:4|5)\d\d(?: [a-z_]+)?)`", row) for row in rows]
    return [replies for replies in found if replies]


@pytest.mark.parametrize("page", CLOSE)
def test_the_chapters_are_those_of_the_english_page(page: str) -> None:
    def ranks(name: str, without: str | None = None) -> list[int]:
        text = re.sub(r"^```.*?^```$", "", page_text(name), flags=re.MULTILINE | re.DOTALL)
        if without is not None:
            text = text.replace(f"{without}\n{section(text, without)}", "")
        return [len(mark) for mark in re.findall(r"^(#+) ", text, re.MULTILINE)]

    assert ranks(page) == ranks(TWINS[page], ENGLISH_ALONE.get(page))


def _programs(page: str) -> list[list[str]]:
    blocks = re.findall(r"^```php\n(.*?)^```$", page_text(page), re.MULTILINE | re.DOTALL)
    return [[line for line in block.splitlines() if not line.lstrip().startswith("//")] for block in blocks]


def test_the_program_is_that_of_the_english_page() -> None:
    """Which is run as it stands (tests/clients); only what it says to people may differ."""
    [italian], [english, *_] = _programs("it/client.md"), _programs("clients.md")
    words = {"': più tardi' : ': da correggere'": "': later' : ': to be mended'"}
    text = "\n".join(italian)
    for ours, theirs in words.items():
        assert ours in text
        text = text.replace(ours, theirs)
    assert text == "\n".join(english)


def test_the_functions_and_codes_of_the_client_are_those_of_the_english_page() -> None:
    italian, english = (names(section(page_text(page), "## PHP")) for page in ("it/client.md", "clients.md"))
    codes = section(page_text("clients.md"), "## What both do")
    assert italian[: len(english)] == english
    assert italian[len(english) :] == re.findall(r"^ +\| `([a-z_]+)` \|", codes, re.MULTILINE)
