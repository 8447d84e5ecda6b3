"""The pages about attachments, web search, deferred work and metrics say what the code does: numbers, words, examples."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from prometheus_client import REGISTRY

from gateway import app
from gateway.attachments import address, counter, pdf, processes, verdicts
from gateway.chain import batch_closing, duty, features, notifying, provide, upkeep, worst_case
from gateway.domain import limits, notices
from gateway.domain.batches import Batch, BatchState, ItemAnswer, ItemFailure, ItemTrouble
from gateway.domain.calls import Outcome
from gateway.domain.catalog import Reasoning, Target
from gateway.domain.events import Searched, Searching, Stop
from gateway.domain.notices import Notice
from gateway.domain.usage import SEARCH_PRICE, Usage
from gateway.notices import courier
from gateway.notices.signature import signature
from gateway.ports import CLAIM_SECONDS
from gateway.providers.sandbox import batches as sandbox_batches
from gateway.storage import batch_rows
from gateway.wire.batches import encode_receipt, encode_state
from gateway.wire.capabilities import LimitsReply
from gateway.wire.notices import encode_notice
from gateway.wire.replies import PageReply, WebReply
from gateway.wire.requests import AttachmentBody
from gateway.wire.sse import search_frame
from tests.docs import names, page_text, prose, section
from tests.services import LOOPBACK, find_free_port, require

MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("page", "fact"),
    [
        ("contract.md", f"up to {limits.MAX_ATTACHMENTS} [PDFs and photos]"),
        ("contract.md", f"free again within {CLAIM_SECONDS} seconds"),
        ("attachments.md", f"1 to {limits.MAX_ATTACHMENT_NAME_CHARACTERS:,} characters"),
        ("attachments.md", f"| files in a request | {limits.MAX_ATTACHMENTS} |"),
        ("attachments.md", f"| one PDF | {limits.MAX_DOCUMENT_MB} MB |"),
        ("attachments.md", f"| one photo | {limits.MAX_IMAGE_MB} MB |"),
        ("attachments.md", f"| all files together | {limits.MAX_ATTACHMENTS_MB} MB |"),
        ("attachments.md", f"{limits.MAX_DOCUMENT_PAGES}; {limits.MAX_DOCUMENT_PAGES_ECONOMY} with a recipe"),
        ("attachments.md", f"A MB is {limits.BYTES_PER_MB:,} bytes"),
        ("attachments.md", f"at most {limits.MAX_ADDRESS_CHARACTERS:,} characters"),
        ("attachments.md", f"longer than {verdicts.COUNTING_SECONDS} seconds to read"),
        ("attachments.md", f"wait up to {pdf.PATIENCE_SECONDS:.0f} seconds"),
        ("attachments.md", f"to {worst_case.TOKENS_PER_PAGE:,} tokens"),
        ("attachments.md", f'`"{features.CITATIONS_OFF_BY_SHAPE}"`'),
        ("web-search.md", f"at most {features.MOST_SEARCHES} in a call"),
        ("web-search.md", f"{SEARCH_PRICE} US dollars for each search"),
        ("web-search.md", f"{features.SEARCH_INPUT_TOKENS:,} tokens of pages"),
        ("deferred.md", f"up to {limits.MAX_DEFERRED_CONTENTS} texts in one request"),
        ("deferred.md", f"| {limits.MAX_OPEN_BATCHES} open numbers"),
        ("deferred.md", f"once in {batch_closing.POLL_SECONDS} seconds at most"),
        ("deferred.md", f"for {batch_closing.KEPT.days} days after handing in"),
        ("deferred.md", f"booked as it was reserved, after {batch_closing.UNCLAIMED.days} days"),
        (
            "deferred.md",
            f"within {batch_closing.LOST_AFTER.total_seconds() / 3600:.0f} hours it is `fallita`",
        ),
        ("deferred.md", f"took it counts for {batch_rows.NAMELESS_HOURS} hours"),
        ("deferred.md", f"Any 2xx within {courier.ANSWER_SECONDS + courier.LINGER_SECONDS:.0f} seconds"),
        ("deferred.md", f"asked when the work is {batch_closing.POLL_SECONDS} seconds old"),
        ("deferred.md", f"every {notifying.LONGEST_PAUSE_SECONDS // 60} minutes in the end"),
        ("operating.md", f"at most {notifying.ASKED_AT_ONCE} numbers"),
        ("operating.md", f"sends {notifying.TOLD_AT_ONCE} notices at a time"),
        ("operating.md", f"| deferred work | {batch_closing.KEPT.days} days after"),
        ("operating.md", f"{processes.MOST_PROCESSES} at most"),
        ("operating.md", f"more than {counter.MEMORY_BYTES // MEBIBYTE} MB"),
        ("operating.md", f"A file has {verdicts.COUNTING_SECONDS} seconds"),
        ("operating.md", f"after {processes.FILES_PER_PROCESS} files"),
        ("operating.md", f"{worst_case.TOKENS_PER_PAGE:,} tokens for each page"),
        ("sandbox.md", f"for {sandbox_batches.KEPT_SECONDS // 86_400} days"),
    ],
)
def test_numbers_are_those_of_the_code(page: str, fact: str) -> None:
    assert fact in prose(page)


def test_words_for_numbers_are_right() -> None:
    """Numbers that the pages write as words."""
    assert pdf.COUNTS_PER_PROJECT == 2
    assert len(provide.BACKOFF_SECONDS) == 2  # deferred work is tried again twice
    assert notices.RETRY_SECONDS == (
        10,
        60,
        300,
        1_800,
        7_200,
        21_600,
    )  # ten seconds to six hours, seven attempts
    assert notifying.PAUSE_BY_AGE == 30  # a thirtieth
    assert duty.LEASE_SECONDS + duty.ASK_SECONDS + upkeep.NOTIFY_SECONDS < 30  # another takes over


# --- attachments ----------------------------------------------------------------------------------------------------


def test_the_fields_of_an_attachment_are_documented() -> None:
    table = page_text("attachments.md").partition("## Limits")[0]
    assert names(table) == ["nome", "dati", "url", "tipo"]
    assert set(AttachmentBody.__struct_encode_fields__) == set(names(table))


def test_the_endings_of_addresses_are_documented() -> None:
    page = section(page_text("attachments.md"), "## What a file is")
    assert {f"`{ending}`" for ending in address.EXTENSIONS} <= set(re.findall(r"`\.[a-z]+`", page))


@pytest.mark.parametrize(("page", "kind"), [("attachments.md", PageReply), ("web-search.md", WebReply)])
def test_citations_have_their_fields(page: str, kind: type[PageReply | WebReply]) -> None:
    [told] = re.findall(r'^ {4}(\{"fonte": .*\})$', page_text(page), re.MULTILINE)
    fields = json.loads(told)
    assert fields.pop("fonte") == kind.__struct_config__.tag
    assert tuple(fields) == kind.__struct_encode_fields__


def test_the_limits_that_an_application_can_ask_for_are_documented() -> None:
    told = section(page_text("contract.md"), "## Capabilities")
    assert [name for name in LimitsReply.__struct_encode_fields__ if f"`{name}`" not in told] == []


# --- web search -----------------------------------------------------------------------------------------------------


def test_the_search_events_are_told_as_they_are() -> None:
    page = section(page_text("web-search.md"), "## In a stream")
    [told] = re.findall(r"^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    begins, ends = (frame.encode() + b"\n\n" for frame in told.strip().split("\n\n"))
    arguments = json.loads(begins.partition(b"data: ")[2])
    search = Searching(arguments["id"], arguments["argomenti"]["query"])
    assert begins == search_frame(search)
    assert ends == search_frame(Searched(search.id))


# --- deferred work --------------------------------------------------------------------------------------------------


def _example(kind: str) -> Any:
    [block] = re.findall(rf"^```json {kind}\n(.*?)^```$", page_text("deferred.md"), re.MULTILINE | re.DOTALL)
    return json.loads(block)


def _batch(**changes: Any) -> Batch:
    return Batch(
        **{
            "number": "prt_a1b2c3d4e5f6",
            "project": "negozio",
            "request_id": "req_1a22d7c6df35dcde80dd28bbbe2",
            "key_id": 1,
            "day": date(2026, 3, 3),
            "created_at": datetime(2026, 3, 3, 21, 10, 3, tzinfo=UTC),
            "recipe": "riassumi",
            "recipe_version": 1,
            "target": Target("claude", "claude-opus-5", "Pepper 6", Reasoning.OFF),
            "total": 3,
            "single": False,
            "reserved": 0,
            **changes,
        }
    )


def test_the_receipt_is_as_it_is_told() -> None:
    assert json.loads(encode_receipt(_batch())) == _example("receipt")


def test_the_state_is_as_it_is_told() -> None:
    outcomes = (
        ItemAnswer("Il primo verbale…", Stop.END, Usage()),
        ItemAnswer("Il secondo…", Stop.END, Usage()),
        ItemFailure(ItemTrouble.EXPIRED),
    )
    ended = _batch(state=BatchState.READY, outcomes=outcomes)
    assert json.loads(encode_state(ended, ZoneInfo("Europe/Rome"))) == _example("state")


def test_every_state_is_documented() -> None:
    table = section(page_text("deferred.md"), "## Collecting").partition("```json")[0]
    assert names(table) == [state.value for state in BatchState]


# --- for operators --------------------------------------------------------------------------------------------------


def test_every_address_is_documented() -> None:
    served = set(re.findall(r'address\(\s*"(/[^"]+)"', Path(app.__file__).read_text()))
    told = section(page_text("operating.md"), "## Addresses")
    assert set(re.findall(r"`(?:GET|POST) (/[a-z./]+)", told)) == served


def test_every_outcome_of_the_ledger_is_documented() -> None:
    ledger = section(page_text("operating.md"), "## The ledger and the spool")
    assert names(ledger) == [outcome.value for outcome in Outcome]


def test_every_count_is_documented() -> None:
    counted = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in REGISTRY.collect()
        if family.name.startswith("pepper_")
    }
    assert set(names(section(page_text("operating.md"), "## Metrics"))) == counted


# --- notices --------------------------------------------------------------------------------------------------------


def test_a_notice_is_as_it_is_told() -> None:
    told = Notice(
        project="negozio",
        id="avv_1",
        batch="prt_a1b2c3d4e5f6",
        state=BatchState.READY,
        total=3,
        created_at=datetime.now(UTC),
        due_at=None,
    )
    assert json.loads(encode_notice(told)) == _example("notice")
    assert list(json.loads(encode_notice(told))) == list(_example("notice"))


def test_the_outcomes_of_notices_are_listed() -> None:
    words = {getattr(courier, name) for name in ("UNKNOWN_NAME", "FORBIDDEN", "UNREACHABLE", "UNTRUSTED")}
    words |= {courier.TIMED_OUT, courier.FAULTY, notices.UNREADABLE_SECRET, notices.WITHDRAWN}
    table = section(page_text("operating.md"), "### Notices")
    assert set(names(table)) == words


def test_the_outcomes_of_calls_are_listed() -> None:
    assert set(names(section(page_text("operating.md"), "## The ledger and the spool"))) == set(Outcome)


SECRET = "avs_una_prova"  # what the receiver of the page is given
BODY = b'{"pratica":"prt_a1b2c3d4e5f6","progetto":"negozio","stato":"pronta","quanti":3}'


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[str]:
    """The receiver that the page shows, served by PHP."""
    [block] = re.findall(r"^```php\n(.*?)^```$", page_text("deferred.md"), re.MULTILINE | re.DOTALL)
    (tmp_path / "avvisi.php").write_text(block)
    port = find_free_port()
    with subprocess.Popen(
        [require("php"), "-S", f"{LOOPBACK}:{port}", "avvisi.php"],
        cwd=tmp_path,
        env={"AVVISO_SEGRETO": SECRET, "PATH": os.environ["PATH"]},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        until = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=5):
                break
            assert time.monotonic() < until
            time.sleep(0.05)
        yield f"http://{LOOPBACK}:{port}/"
        server.terminate()


@pytest.mark.php
async def test_the_receiver_of_the_page_believes_pepper_alone(receiver: str, tmp_path: Path) -> None:
    sender = courier.Courier(ssl.create_default_context, private=True)
    assert (await sender.deliver(receiver, SECRET, "avv_1", BODY)).outcome == "204"
    assert (tmp_path / "da-ritirare.txt").read_text() == "prt_a1b2c3d4e5f6\n"
    assert (await sender.deliver(receiver, "avs_un_altro", "avv_1", BODY)).outcome == "403"
    await sender.aclose()
    now = int(time.time())
    true = signature(SECRET, now, BODY)
    wrong = [
        "",
        true + "\n",
        true.replace(",v1=", ",v0="),
        true[:-1] + ("0" if true[-1] != "0" else "1"),
        signature(SECRET, now - 301, BODY),
        signature(SECRET, now + 330, BODY),
        signature(SECRET, now, BODY + b" "),
        f"t={now + 1},{true.partition(',')[2]}",
    ]
    async with httpx.AsyncClient() as client:
        for one in wrong:
            reply = await client.post(receiver, content=BODY, headers={"X-Pepper-Firma": one.strip()})
            assert reply.status_code == (204 if one.strip() == true else 403), one
    assert (tmp_path / "da-ritirare.txt").read_text().count("prt_") == 2
