"""The pages say what the code says: errors, settings, trigger words, fields, limits, rooms; and their links lead somewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from gateway.chain import admit, ledger, memory, rate
from gateway.dilem import contract as dilem
from gateway.dilem import policy, rehearsal
from gateway.dilem.operations import OPERATIONS
from gateway.domain import alerts, calls, limits
from gateway.domain.errors import CONTRACT_FAULTS
from gateway.domain.operator_settings import LONGEST_CONVERSATION_DAYS
from gateway.domain.sandbox import triggers
from gateway.notices import mail
from gateway.providers.sandbox import adapter, batches
from gateway.recipe_files import LIST_LIMITS, NO_CACHE
from gateway.routes import exchange, responses
from gateway.storage.first_start import BRAINS
from gateway.wire.replies import MetaReply
from gateway.wire.requests import CompletionBody
from tests.docs import (
    DOCS,
    ERRORI,
    ERRORS,
    errors_page,
    names,
    page_text,
    pagina_degli_errori,
    prose,
    section,
)

ROOT = DOCS.parent
GATEWAY = ROOT / "gateway"


# --- errors ---------------------------------------------------------------------------------------------------------


def test_the_errors_are_the_table() -> None:
    assert ERRORS.read_text() == errors_page(), "docs/errors.md is old: python -m tests.docs"
    assert ERRORI.read_text() == pagina_degli_errori(), "docs/it/errori.md is old: python -m tests.docs"


# --- settings -------------------------------------------------------------------------------------------------------


def test_every_variable_that_is_read_is_documented_and_no_other() -> None:
    read = set(re.findall(r'"((?:PEPPER|ANTHROPIC|OPENAI)_[A-Z_]+)"', (GATEWAY / "settings.py").read_text()))
    told = names(section(page_text("operating.md"), "## Environment"))
    assert len(told) == len(set(told))
    assert set(told) == read


def test_no_page_names_a_variable_that_nobody_reads() -> None:
    read = set(re.findall(r'"((?:PEPPER|ANTHROPIC|OPENAI)_[A-Z_]+)"', (GATEWAY / "settings.py").read_text()))
    clients = {"PEPPER_KEY", "PEPPER_PROGETTO", "PEPPER_URL"}  # of the examples and the PHP client
    for page in DOCS.rglob("*.md"):
        named = set(re.findall(r"\b(?:PEPPER|ANTHROPIC|OPENAI)_[A-Z_]*[A-Z]\b", page.read_text()))
        assert named <= read | clients, page.name


# --- the sandbox ----------------------------------------------------------------------------------------------------


def _trigger_words() -> set[str]:
    told = names(section(page_text("sandbox.md"), "## Trigger words"))
    assert all(re.fullmatch(r"\[\[prova:[a-z_]+(:[0-9.:]+)?\]\]", word) for word in told), told
    return set(told)


def test_every_word_of_the_sandbox_is_listed() -> None:
    """The words with numbers stand in the grammar; those that are neither codes nor numbered, in the provider."""
    grammar = set(
        re.findall(r'numbered\.get\("([a-z_]+)"\)', (GATEWAY / "domain" / "sandbox.py").read_text())
    )
    behaviours = {word.removeprefix("[[prova:").removesuffix("]]").split(":")[0] for word in _trigger_words()}
    codes = {fault.code for fault in CONTRACT_FAULTS}
    plain = {adapter.TRUNCATED, adapter.UNSENT, batches.BROKEN, batches.EXPIRES, batches.FAILS}
    assert behaviours == grammar | plain | codes | set(rehearsal.WORDS)


def test_every_listed_word_is_understood() -> None:
    silent = triggers("")
    for word in _trigger_words():
        assert triggers(word) != silent, word


# --- the contract ---------------------------------------------------------------------------------------------------


def test_the_fields_of_a_request_are_documented() -> None:
    request = section(page_text("contract.md"), "## The request")
    for name in CompletionBody.__struct_encode_fields__:
        assert f"`{name}`" in request or f'`"{name}":' in request, name


def test_the_documented_fields_of_meta_are_those_that_are_told() -> None:
    table = section(page_text("contract.md"), "## The answer")
    told = [name for name in names(table) if re.fullmatch(r"[a-z_]+", name)]
    assert told == list(MetaReply.__struct_encode_fields__), "all of them, in the contract's order"


_minutes = [str(seconds // 60) for seconds in alerts.AFTER_SECONDS]


@pytest.mark.parametrize(
    ("page", "fact"),
    [
        ("contract.md", f"1 to {limits.MAX_CONTENT_CHARACTERS:,} Unicode characters"),
        ("contract.md", f"1 to {limits.MAX_IDEMPOTENCY_KEY_CHARACTERS} printable ASCII"),
        ("contract.md", f"within {exchange.BODY_SECONDS:.0f} seconds"),
        ("contract.md", f"every {responses.PING_SECONDS:.0f} seconds of silence"),
        ("contract.md", f"nothing for {responses.READER_SECONDS:.0f} seconds"),
        ("contract.md", f"within {calls.TOTAL_SECONDS:.0f} seconds in all"),
        ("contract.md", f"waits up to {admit.ROOM_SECONDS:.0f} seconds, then `429 troppe_richieste`"),
        ("contract.md", f"up to {admit.BUSY_SECONDS:.0f} seconds, then `503`"),
        (
            "contract.md",
            f"`/pratica.php`, `/capacita.php` and `/conoscenza.php` together: {rate.CALLS_PER_MINUTE} a minute",
        ),
        ("contract.md", f"fit about {memory.HISTORY_TOKENS:,} tokens"),
        ("contract.md", f"nobody touches for {memory.RETENTION.days} days"),
        ("contract.md", f'"{NO_CACHE}": true'),
        *(
            ("contract.md", f"{fewest} to {most} different names, up to {length} characters")
            for fewest, most, length in LIST_LIMITS.values()
        ),
        (
            "dilem.md",
            f"size ({dilem.BODY_BYTES:,} bytes) and time ({policy.BODY_SECONDS:.0f} seconds) of the body",
        ),
        ("dilem.md", f"within {policy.DECIDE_SECONDS:.0f} seconds of its request"),
        ("dilem.md", f"has {policy.TURNS_PER_CASE} turns"),
        ("dilem.md", f"locked for {policy.LEASE_SECONDS:.0f} seconds"),
        ("dilem.md", f"usage of an identity | {policy.USAGE_PER_MINUTE} a minute"),
        ("dilem.md", f"cards of an identity | {policy.CARDS_PER_MINUTE} a minute"),
        ("dilem.md", f"votes of an identity, read and written | {policy.VOTES_PER_MINUTE} a minute"),
        ("dilem.md", f"reports of an identity | {policy.REPORTS_PER_HOUR} in any hour"),
        ("dilem.md", f"lasts {policy.SESSION_LIFE.days} days from its last renewal"),
        ("dilem.md", f"`session_expired` for {policy.REMEMBERED.days} more"),
        ("dilem.md", f"results and votes | {policy.RETENTION.days} days"),
        ("dilem.md", f"reports | {policy.REPORT_RETENTION.days} days"),
        ("operating.md", f"for {ledger.TRY_SECONDS:.0f} seconds, it is appended to the spool"),
        ("operating.md", f"{exchange.BODIES_IN_FLIGHT // exchange.ONE_MIB} MB of request bodies"),
        ("operating.md", f"{memory.RETENTION.days} days after the last call"),
        ("operating.md", f"1 to {LONGEST_CONVERSATION_DAYS:,}; {memory.RETENTION.days} as long as nobody"),
        ("operating.md", f"reaches {alerts.NEAR_PERCENT}% of its cap"),
        ("operating.md", f"(after {', '.join(_minutes[:-1])} and {_minutes[-1]} minutes)"),
        ("operating.md", f"Each attempt has {mail.MAIL_SECONDS:.0f} seconds; the server's"),
    ],
)
def test_numbers_are_those_of_the_code(page: str, fact: str) -> None:
    assert fact in prose(page)


def test_the_installed_models_are_listed() -> None:
    table = section(page_text("operating.md"), "## First start")
    for brain in BRAINS:
        default = " (default)" if brain.default else ""
        fallback = str(brain.fallback)
        last = fallback if fallback == "none" else f"`{fallback}`"
        row = f"| `{brain.name}`{default} | {brain.provider} | `{brain.principal}`, `{brain.economy}` | {brain.reasoning} | {last} |"
        assert row in table


def test_every_operation_of_dilem_is_listed() -> None:
    table = section(page_text("dilem.md"), "## Addresses")
    for operation in OPERATIONS:
        assert f"`{operation.method} {operation.path}` | `{operation.name}` |" in table


# --- the house ------------------------------------------------------------------------------------------------------


def _floors() -> list[list[str]]:
    """The rooms of each floor in docs/architecture.md, from above; those in parentheses with them."""
    floors: list[list[str]] = []
    for line in section(page_text("architecture.md"), "## Floors").splitlines():
        row = re.match(r"\| (\d?) ?\| `(\(?[a-z_]+/?\)?)` \|", line)
        if row is None:
            continue
        if row[1]:
            floors.append([])
        floors[-1].append(row[2])
    return floors


def _bare(room: str) -> str:
    return room.strip("()/")


def test_every_room_is_in_the_architecture() -> None:
    rooms = {
        path.stem for path in GATEWAY.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    told = [room for floor in _floors() for room in floor]
    assert {_bare(room) for room in told if not room.startswith("(")} <= rooms - {"__init__"}
    assert rooms - {"__init__"} <= {_bare(room) for room in told}


def test_every_implementation_is_in_the_architecture() -> None:
    page = page_text("architecture.md")
    for port in ("keyvalue", "providers", "vectors"):
        for inner in (GATEWAY / port).iterdir():
            if (inner / "__init__.py").is_file():
                assert f"`{inner.name}/`" in page, inner


def test_the_floors_are_those_that_are_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["id"] == "floors")
    enforced = [{_bare(room.strip()) for room in layer.split("|")} for layer in layers]
    told = [{_bare(room) for room in floor} for floor in _floors()]
    named = set().union(*told)
    assert [layer & named for layer in enforced if layer & named] == told


# --- decisions ------------------------------------------------------------------------------------------------------


def test_decisions_are_numbered_whole_and_listed() -> None:
    records = sorted((DOCS / "decisions").glob("*.md"))
    index = section(page_text("architecture.md"), "## Decisions")
    for number, record in enumerate(records, start=1):
        assert record.name.startswith(f"{number:04}-")
        text = record.read_text()
        assert text.startswith(f"# {number}. ")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
        assert f"[{number:04}](decisions/{record.name})" in index


# --- links ----------------------------------------------------------------------------------------------------------


def _anchors(page: Path) -> set[str]:
    """The anchors a page has, as GitHub makes them of headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


SERVED = {"/docs/llms.txt", "/docs/it/contratto/", "/pepper/openapi.json"}
"""Addresses of the gateway that pages lead to; tests/e2e/test_site.py asks for them."""
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        if target.startswith("/"):
            assert target in SERVED
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), target
        if anchor and other.suffix == ".md":
            assert anchor in _anchors(other), target
