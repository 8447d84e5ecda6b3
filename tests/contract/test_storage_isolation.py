"""Whatever belongs to a project is read and written with the project in the WHERE clause: every statement is looked at."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import event

from gateway.domain.batches import BatchState
from gateway.domain.notices import Delivery
from gateway.storage.batches import Batches
from gateway.storage.calls import Calls
from gateway.storage.catalog import Catalog
from gateway.storage.changes import ProjectChanges
from gateway.storage.conversations import Conversations
from gateway.storage.database import Database
from gateway.storage.document_rows import Content, Draft
from gateway.storage.documents import Documents
from gateway.storage.notices import Notices
from gateway.storage.reservations import Reservation
from gateway.storage.tenants import Tenants
from tests.unit.storage.stores import (
    ANNA,
    KINDS,
    NOW,
    TODAY,
    batch,
    entry,
    opened,
    pair,
    place_of,
    project,
    record,
)

TENANT_TABLE = re.compile(
    r"\b(?:FROM|UPDATE|JOIN)\s+(batches|notices|calls|spending|reservations|conversations|pairs|project_keys|documents|knowledge|stale_passages)\b"
)
WITH_PROJECT = re.compile(r"WHERE .*\bproject\b", re.DOTALL)
ACROSS_PROJECTS = re.compile(
    # Is the row there, under whatever name? A request id is one in the whole ledger.
    r"^SELECT calls\.request_id \s*FROM calls \s*WHERE calls\.request_id IN"
    # Which of a provider's batches are taken? The names alone, to find a submission whose answer was lost.
    r"|^SELECT batches\.provider_id \s*FROM batches \s*WHERE batches\.provider ="
)


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(place_of(request, tmp_path)) as database:
        yield database


async def test_every_statement_names_the_project(database: Database) -> None:
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(database.engine.sync_engine, "before_cursor_execute", note)
    tenants, calls, conversations = Tenants(database), Calls(database), Conversations(database)
    batches, notices = Batches(database), Notices(database)
    for name in ("alfa", "beta"):
        await tenants.add_project(project(name, notice_url="https://a.it"), ANNA, notice_secret=b"x")
        key = await tenants.add_key(name, name.encode().ljust(32), "", ANNA, NOW)
        await tenants.list_keys(name)
        held = Reservation(project=name, day=TODAY, request_id=f"h-{name}", amount=5, record=b"")
        await calls.reserve(held, 1)
        await calls.reserve(held, 1)
        other = Reservation(project=name, day=TODAY, request_id=f"r-{name}", amount=5, record=b"")
        await calls.renew_reservations([held, other])
        written = [entry(f"r-{name}", name, pair=pair(f"r-{name}", name), reserved_in_database=True)]
        await calls.commit(written)
        await calls.commit(written)
        await calls.release_reservations(name, [f"h-{name}"])
        await calls.spent(name, TODAY)
        await calls.find_call(name, f"r-{name}")
        await calls.recent_calls(name)
        await conversations.append(pair(f"s-{name}", name, replaces=f"r-{name}"))
        await conversations.exists(name, "cnv_1", NOW)
        await conversations.history(name, "cnv_1", NOW, 100)
        for number in ("prt_1", "prt_2", "prt_3"):
            await batches.open(batch(number, name), 1_000, 20)
        await batches.open(batch("prt_4", name), 1, 20)
        await batches.sending(name, "prt_1", NOW)
        await batches.sent(name, "prt_1", f"batch_{name}")
        await batches.running([name], NOW)
        await batches.held_ids("openai")
        await batches.cancel(name, "prt_2")
        await batches.take_turn(name, "prt_1", NOW)
        await batches.get(name, "prt_1", NOW)
        await batches.count_open(name, NOW)
        done = msgspec.structs.replace(batch("prt_1", name), state=BatchState.FAILED, settled_at=NOW)
        await batches.settle(done, record(done.request_id, name), f"avv_{name}")
        [notice] = await notices.due([name], NOW)
        await notices.address(name)
        told = Delivery(outcome="500")
        await notices.told(notice, told, record(f"{notice.id}.1", name), at=NOW, again=NOW)
        await notices.recent(name)
        await tenants.set_project(name, ProjectChanges(notice_url=None), ANNA, NOW)
        await _use_documents(Documents(database), name)
        await Catalog(database).recipe_history("libero", project=name)
        await tenants.revoke_key(name, key.id, ANNA, NOW)
    await tenants.remove_project("alfa", ANNA, NOW)
    await calls.close()
    looked_at = [each for each in statements if TENANT_TABLE.search(each)]
    assert len(looked_at) > 90
    assert [
        each for each in looked_at if not WITH_PROJECT.search(each) and not ACROSS_PROJECTS.search(each)
    ] == []


async def _use_documents(documents: Documents, name: str) -> None:
    content = Content(name="Listino", text="Mele.", passages=1, embedder="prova", uploaded_at=NOW)
    first = await documents.begin(name, "Listino", 200, NOW)
    draft = await documents.begin(name, "Listino", 200, NOW)
    assert isinstance(first, Draft)
    assert isinstance(draft, Draft)
    await documents.publish(first, content, 200)
    await documents.publish(draft, content, 200)
    await documents.forgotten(draft)
    await documents.version(name)
    await documents.shelf(name)
    await documents.text(name, draft.document)
    await documents.knows(name, draft.document)
    await documents.remove(name, draft.document, NOW)
    await documents.remove(name, draft.document, NOW)
    await documents.knows(name, draft.document)
