"""Documents of the knowledge base, on both databases: one commit decides what is live, and nothing is left for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import func, select, update

from gateway.domain.knowledge import Document
from gateway.storage import schema
from gateway.storage.audit import read_audit
from gateway.storage.columns import database_now
from gateway.storage.database import Database
from gateway.storage.document_rows import Content, Draft, Full, Gone, Published, Removed, Stale
from gateway.storage.documents import WRITING_SECONDS, Documents
from gateway.storage.refusals import UnknownError
from gateway.storage.tenants import Tenants
from tests.unit.storage.stores import ANNA, KINDS, NOW, opened, place_of, project

MOST = 3
LATER = NOW + timedelta(hours=3)
TEXT = "Le ferie si chiedono entro il 31 marzo 🍋.\x00\nArt. 12 — «Fine»."


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(place_of(request, tmp_path)) as database:
        for name in ("alfa", "beta"):
            await Tenants(database).add_project(project(name), ANNA)
        yield database


@pytest.fixture
def documents(database: Database) -> Documents:
    return Documents(database)


def content(name: str = "Regolamento", text: str = TEXT, **fields: object) -> Content:
    usual: dict[str, object] = {"passages": 2, "embedder": "prova:1", "uploaded_at": NOW}
    return Content(name=name, text=text, **usual | fields)  # type: ignore[arg-type]


async def begun(documents: Documents, name: str = "Regolamento", owner: str = "alfa") -> Draft:
    draft = await documents.begin(owner, name, MOST, NOW)
    assert isinstance(draft, Draft)
    return draft


async def kept(documents: Documents, name: str = "Regolamento", owner: str = "alfa") -> Document:
    published = await documents.publish(await begun(documents, name, owner), content(name), MOST)
    assert isinstance(published, Published)
    if published.stale:
        await documents.forgotten(published.stale)
    return published.uploaded.document


async def rows(database: Database, table: str) -> int:
    async with database.connect() as connection:
        return int(
            await connection.scalar(select(func.count()).select_from(schema.metadata.tables[table])) or 0
        )


async def age(database: Database, seconds: float) -> None:
    """Make all that is stale older."""
    async with database.begin() as connection:
        await connection.execute(update(schema.stale_passages).values(at=database_now(-seconds)))


async def test_nobody_sees_a_document_before_it_is_published(documents: Documents) -> None:
    assert (await documents.shelf("alfa")).version == await documents.version("alfa") == 0
    draft = await begun(documents)
    shelf = await documents.shelf("alfa")
    assert (shelf.documents, shelf.version) == ((), 0)
    assert not await documents.knows("alfa", draft.document)
    assert await documents.remove("alfa", draft.document, NOW) is None
    assert await documents.text("alfa", draft.document) is None

    published = await documents.publish(draft, content(), MOST)
    assert isinstance(published, Published)
    assert (published.uploaded.replaced, published.stale) == (False, None)
    shelf = await documents.shelf("alfa")
    assert shelf.documents == (published.uploaded.document,)
    assert shelf.version == await documents.version("alfa") != 0
    document = shelf.documents[0]
    assert (document.id, document.version) == (draft.document, draft.version)
    assert (document.name, document.characters, document.passages) == ("Regolamento", len(TEXT), 2)
    assert (document.embedder, document.uploaded_at) == ("prova:1", NOW)
    assert await documents.text("alfa", document.id) == (document, TEXT)


async def test_a_replacement_keeps_the_id_and_says_what_the_index_may_forget(
    documents: Documents, database: Database
) -> None:
    first = await kept(documents)
    version = await documents.version("alfa")
    draft = await begun(documents)
    assert draft.document == first.id
    assert draft.version != first.version
    assert (await documents.shelf("alfa")).documents == (first,), "the earlier one goes on answering"
    published = await documents.publish(draft, content(text="Nuovo", passages=1, uploaded_at=LATER), MOST)
    assert isinstance(published, Published)
    assert published.uploaded.replaced
    assert published.stale == Stale("alfa", first.id, first.version)
    assert await documents.version("alfa") != version
    [now] = (await documents.shelf("alfa")).documents
    assert (now.id, now.version, now.characters, now.uploaded_at) == (first.id, draft.version, 5, LATER)
    assert await rows(database, "stale_passages") == 1
    await documents.forgotten(published.stale)
    assert await rows(database, "stale_passages") == 0
    assert (await documents.shelf("alfa")).documents == (now,)


async def test_ids_are_never_given_twice(documents: Documents) -> None:
    first = await kept(documents)
    removed = await documents.remove("alfa", first.id, NOW)
    assert isinstance(removed, Removed)
    assert removed.document == first
    assert (await kept(documents)).id > first.id


async def test_names_and_ids_are_a_projects_own(documents: Documents) -> None:
    mine, theirs = await kept(documents), await kept(documents, owner="beta")
    assert mine.id != theirs.id
    assert await documents.text("alfa", theirs.id) is None
    assert not await documents.knows("alfa", theirs.id)
    version = await documents.version("beta")
    assert await documents.remove("alfa", theirs.id, NOW) is None
    assert (await documents.shelf("beta")).documents == (theirs,)
    assert await documents.version("beta") == version
    other = await kept(documents, "regolamento")  # to the letter
    assert other.id not in {mine.id, theirs.id}


async def test_a_removal_that_was_cut_short_is_completed(documents: Documents, database: Database) -> None:
    document = await kept(documents)
    version = await documents.version("alfa")
    first = await documents.remove("alfa", document.id, NOW)
    stale = Stale("alfa", document.id, document.version)
    assert first == Removed(document, (stale,))
    assert await documents.version("alfa") != version
    assert (await documents.shelf("alfa")).documents == ()
    assert await documents.knows("alfa", document.id)
    assert await documents.remove("alfa", document.id, NOW) == Removed(None, (stale,))
    assert await documents.remove("beta", document.id, NOW) is None
    await documents.forgotten(stale)
    assert not await documents.knows("alfa", document.id)
    assert await documents.remove("alfa", document.id, NOW) is None
    assert await rows(database, "documents") == await rows(database, "stale_passages") == 0


async def test_the_limit_counts_live_documents_and_spares_replacements(documents: Documents) -> None:
    for name in ("uno", "due"):
        await kept(documents, name)
    late, last = await begun(documents, "tre"), await begun(documents, "quattro")
    assert isinstance(await documents.publish(last, content("quattro"), MOST), Published)
    assert isinstance(await documents.publish(late, content("tre"), MOST), Full)
    assert isinstance(await documents.begin("alfa", "tre", MOST, NOW), Full)
    assert isinstance(await documents.begin("alfa", "cinque", MOST, NOW), Full)
    await kept(documents, "uno")
    await kept(documents, "cinque", "beta")
    [first, *_] = (await documents.shelf("alfa")).documents
    assert await documents.remove("alfa", first.id, NOW)
    await kept(documents, "cinque")
    assert [one.name for one in (await documents.shelf("alfa")).documents] == ["due", "quattro", "cinque"]


async def test_of_uploads_at_once_one_wins_whole(documents: Documents, database: Database) -> None:
    drafts = await asyncio.gather(*(begun(documents) for _ in range(6)))
    assert len({draft.document for draft in drafts}) == 1
    assert len({draft.version for draft in drafts}) == 6
    verdicts = await asyncio.gather(
        *(documents.publish(draft, content(text=f"testo {draft.version}"), MOST) for draft in drafts)
    )
    published = [verdict for verdict in verdicts if isinstance(verdict, Published)]
    assert len(published) == 6
    assert sum(not each.uploaded.replaced for each in published) == 1
    [live] = (await documents.shelf("alfa")).documents
    found = await documents.text("alfa", live.id)
    assert found
    assert found[1] == f"testo {live.version}"
    stale = {each.stale.version for each in published if each.stale}
    assert stale == {draft.version for draft in drafts} - {live.version}
    assert await rows(database, "stale_passages") == 5


async def test_what_was_removed_meanwhile_is_not_published(documents: Documents) -> None:
    document = await kept(documents)
    draft = await begun(documents)
    assert await documents.remove("alfa", document.id, NOW)
    assert isinstance(await documents.publish(draft, content(), MOST), Gone)
    assert (await documents.shelf("alfa")).documents == ()


async def test_what_was_replaced_meanwhile_is_not_made_anew(documents: Documents) -> None:
    """Reading a document anew must not bring back the text that somebody has just replaced."""
    document = await kept(documents)
    draft = await begun(documents)
    newer = await kept(documents)
    verdict = await documents.publish(draft, content(text="vecchio"), MOST, instead_of=document.version)
    assert isinstance(verdict, Gone)
    assert (await documents.shelf("alfa")).documents == (newer,)
    again = await begun(documents)
    assert isinstance(await documents.publish(again, content(), MOST, instead_of=newer.version), Published)


async def test_drafts_that_nobody_publishes_are_swept_and_cannot_be_published_any_more(
    documents: Documents, database: Database
) -> None:
    document = await kept(documents)
    replacing, fresh = await begun(documents), await begun(documents, "nuovo")
    assert await documents.stale() == ()
    await age(database, WRITING_SECONDS + 1)
    stale = await documents.stale()
    assert {(one.document, one.version) for one in stale} == {
        (draft.document, draft.version) for draft in (replacing, fresh)
    }
    for draft, name in ((replacing, "Regolamento"), (fresh, "nuovo")):
        assert isinstance(await documents.publish(draft, content(name), MOST), Gone)
    for one in stale:
        await documents.forgotten(one)
    assert await documents.stale() == ()
    assert (await documents.shelf("alfa")).documents == (document,)
    assert await rows(database, "documents") == 1, "the row of a document that never was is gone too"


async def test_a_row_that_waits_for_another_upload_stays(documents: Documents, database: Database) -> None:
    failed, other = await begun(documents), await begun(documents)
    await documents.forgotten(failed)
    assert await rows(database, "documents") == 1
    assert isinstance(await documents.publish(other, content(), MOST), Published)


async def test_a_project_that_is_gone_gets_nothing(documents: Documents, database: Database) -> None:
    document, draft = await kept(documents), await begun(documents, "altro")
    await kept(documents, owner="beta")
    await Tenants(database).remove_project("alfa", ANNA, NOW)
    with pytest.raises(UnknownError):
        await documents.publish(draft, content("altro"), MOST)
    with pytest.raises(UnknownError):
        await documents.begin("alfa", "altro", MOST, NOW)
    assert (await documents.shelf("alfa")).documents == ()
    assert len((await documents.shelf("beta")).documents) == 1
    await age(database, WRITING_SECONDS + 1)
    versions = {(one.project, one.version) for one in await documents.stale()}
    assert versions == {("alfa", document.version), ("alfa", draft.version)}, (
        "the sweep can still tell the index"
    )
    await Tenants(database).add_project(project("alfa"), ANNA)
    assert await documents.version("alfa") == 0
    version = (await documents.shelf("beta")).version
    await kept(documents)
    assert await documents.version("alfa") not in {0, version}


async def test_a_disabled_project_gets_nothing(documents: Documents, database: Database) -> None:
    await Tenants(database).disable_project("alfa", ANNA, NOW)
    with pytest.raises(UnknownError):
        await documents.begin("alfa", "altro", MOST, NOW)


async def test_an_operators_changes_are_audited_and_a_partners_are_not(
    documents: Documents, database: Database
) -> None:
    before = len(await read_audit(database))
    document = await kept(documents)
    assert len(await read_audit(database)) == before
    await documents.publish(await begun(documents), content(), MOST, by=ANNA)
    await documents.remove("alfa", document.id, NOW, by=ANNA)
    removed, added = (await read_audit(database))[:2]
    assert (added.action, added.subject, added.operator) == ("document.add", "alfa: Regolamento", "anna")
    assert (removed.action, removed.subject) == ("document.remove", "alfa: Regolamento")
    assert removed.before is not None
    assert msgspec.json.decode(removed.before)["name"] == "Regolamento"
    assert TEXT[:10].encode() not in bytes(removed.before) + bytes(added.after or b"")
