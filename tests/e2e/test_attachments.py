"""PDFs and photos over the wire: who may send them, what passes at the edges, and what comes back of their pages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.domain.limits import BYTES_PER_MB
from gateway.domain.tenants import Permission
from tests.e2e import told
from tests.e2e.desk import Tenant
from tests.e2e.enclosed import linked, padded, pdf, photo, sent
from tests.e2e.harness import Gateway
from tests.unit.attachments import corpus

DOCUMENTS, IMAGES = Permission.DOCUMENTS, Permission.IMAGES
BOTH = (DOCUMENTS, IMAGES)
OPENAI_BRAIN = "Pepper 6 · OpenAI"
ECONOMY_RECIPE = "correggi"
BROKEN = {
    "junk": b"ciao a tutti",
    "cut": corpus.pdf(3)[:200],
    "password": corpus.encrypted("segreta"),
    "opens, but encrypted": corpus.encrypted(""),
    "no pages": corpus.no_pages(),
    "cyclic": corpus.cyclic(),
    "bomb": corpus.object_stream_bomb(600 << 20),
    "deep": corpus.deep_array(100_000),
    "header alone": b"%PDF-1.7\n",
    **corpus.OTHERS,
}


@pytest.fixture(scope="module")
def backend() -> str:
    """No store has a part in it."""
    return "embedded"


def blocks_of(gateway: Gateway) -> list[dict[str, Any]]:
    """What the model was last sent beside the text."""
    content: list[dict[str, Any]] = gateway.fakes.claude.seen[-1].body["messages"][-1]["content"]
    *blocks, text = content
    assert text["type"] == "text"
    return blocks


async def accepted(gateway: Gateway, tenant: Tenant, *files: dict[str, Any], **fields: Any) -> dict[str, Any]:
    body = told.answer(await gateway.ask(tenant, documenti=files, **fields))
    meta: dict[str, Any] = body["meta"]
    return meta


async def refused(
    gateway: Gateway, tenant: Tenant, *files: dict[str, Any], status: int, code: str, **fields: Any
) -> str:
    """The message; streamed or not, the refusal is plain, and nobody is asked."""
    before = len(gateway.fakes.claude.seen)
    message = told.error(await gateway.ask(tenant, documenti=files, **fields), status, code)
    assert len(gateway.fakes.claude.seen) == before
    return message


# --- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_each_kind_has_its_own_permission(gateway: Gateway, *, stream: bool) -> None:
    nothing, documents, images, both = [
        await gateway.desk.project(allow=allow) for allow in ((), (DOCUMENTS,), (IMAGES,), BOTH)
    ]
    no_pdf: dict[str, Any] = {"status": 403, "code": "documenti_non_abilitati", "stream": stream}
    no_photo: dict[str, Any] = {"status": 403, "code": "immagini_non_abilitate", "stream": stream}
    for tenant in (nothing, images):
        await refused(gateway, tenant, pdf(), **no_pdf)
        await refused(gateway, tenant, linked("https://example.com/a"), **no_pdf)
    for tenant in (nothing, documents):
        await refused(gateway, tenant, photo(), **no_photo)
        await refused(gateway, tenant, linked("https://example.com/a.jpg"), **no_photo)
    await refused(gateway, documents, pdf(), photo(), **no_photo)
    await refused(gateway, images, photo(), pdf(), **no_pdf)
    # A name or a type that lies opens no door.
    await refused(gateway, images, sent(corpus.pdf(), "a.png", "image/png"), **no_pdf)
    await refused(gateway, documents, sent(corpus.PNG, "a.pdf", "application/pdf"), **no_photo)
    for tenant, files in ((documents, [pdf()]), (images, [photo()]), (both, [pdf(), photo()])):
        if stream:
            async with gateway.stream(tenant, documenti=files) as told_stream:
                await told_stream.told()
        else:
            await accepted(gateway, tenant, *files)


async def test_capabilities_tell_what_a_call_would_find(gateway: Gateway) -> None:
    for brain, reads in ((None, True), ("Pepper 7", True), (OPENAI_BRAIN, False)):
        for allow in ((), (DOCUMENTS,), (IMAGES,), BOTH):
            tenant = await gateway.desk.project(allow=allow, brain=brain)
            powers = (await gateway.capabilities(tenant))["puo"]
            assert powers["documenti"] is (reads and DOCUMENTS in allow)
            assert powers["immagini"] is (reads and IMAGES in allow)
            for name, file in (("documenti", pdf()), ("immagini", photo())):
                response = await gateway.ask(tenant, documenti=[file])
                assert response.status_code == (200 if powers[name] else 403), (brain, allow, name)
    sandbox = await gateway.desk.project(allow=BOTH, brain=OPENAI_BRAIN, sandbox=True)
    powers = (await gateway.capabilities(sandbox))["puo"]
    assert (powers["documenti"], powers["immagini"]) == (True, True)


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (pdf(), "documenti_non_abilitati"),
        (photo(), "immagini_non_abilitate"),
        (linked("https://example.com/a.webp"), "immagini_non_abilitate"),
        (linked("https://example.com/a"), "documenti_non_abilitati"),
        (linked("https://["), "documenti_non_abilitati"),
        (sent("!!!", "storto.pdf"), "documenti_non_abilitati"),
    ],
)
async def test_a_brain_that_reads_nothing_says_so_by_name(
    gateway: Gateway, file: dict[str, Any], code: str
) -> None:
    tenant = await gateway.desk.project(allow=BOTH, brain=OPENAI_BRAIN)
    for stream in (False, True):
        message = await refused(gateway, tenant, file, status=403, code=code, stream=stream)
        assert OPENAI_BRAIN in message
    assert gateway.fakes.openai.seen == []
    told.answer(await gateway.ask(tenant, documenti=[]))


async def test_a_recipe_that_is_not_there_comes_first_and_a_conversation_last(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    await refused(gateway, tenant, pdf(), status=404, code="encode_sconosciuto", encode="mai")
    await refused(gateway, tenant, pdf(), status=403, code="documenti_non_abilitati", conversazione="cnv_mai")
    reader = await gateway.desk.project(allow=BOTH)
    junk = sent(b"ciao a tutti", "a.pdf")
    await refused(gateway, reader, junk, status=400, code="documento_non_valido", conversazione="cnv_mai")
    await refused(
        gateway, reader, pdf(), status=404, code="conversazione_sconosciuta", conversazione="cnv_mai"
    )


# --- the limits -------------------------------------------------------------------------------------------------------


async def test_five_files_and_not_six(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    await accepted(gateway, tenant, *[photo()] * 3, *[pdf()] * 2)
    assert [block["type"] for block in blocks_of(gateway)] == ["image"] * 3 + ["document"] * 2
    await refused(gateway, tenant, *[photo()] * 6, status=413, code="troppi_documenti")


async def test_the_last_byte_of_one_file_and_of_all(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    ten = pdf(size=10 * BYTES_PER_MB)
    assert (await accepted(gateway, tenant, ten, ten))["documenti_pagine"] == 2  # and 20 MB together
    five = photo(data=padded(corpus.JPEG, 5 * BYTES_PER_MB))
    await accepted(gateway, tenant, five)
    for files, part in (
        ([pdf(size=10 * BYTES_PER_MB + 1)], "10 MB"),
        ([photo(data=padded(corpus.JPEG, 5 * BYTES_PER_MB + 1))], "5 MB"),
        ([ten, ten, photo()], "20 MB"),
    ):
        message = await refused(gateway, tenant, *files, status=413, code="documento_troppo_grande")
        assert part in message


async def test_the_last_page_of_each_level(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    halves = [pdf("a.pdf", pages=50), pdf("b.pdf", pages=50)]
    for most, recipe, files in (
        (600, "libero", [pdf(pages=600)]),
        (100, ECONOMY_RECIPE, [pdf(pages=100)]),
        (100, ECONOMY_RECIPE, halves),
    ):
        meta = await accepted(gateway, tenant, *files, encode=recipe)
        assert meta["documenti_pagine"] == most
    for recipe, files, pages in (
        ("libero", [pdf(pages=601)], 601),
        (ECONOMY_RECIPE, [pdf(pages=101)], 101),
        (ECONOMY_RECIPE, [*halves, pdf()], 101),
    ):
        message = await refused(
            gateway, tenant, *files, status=413, code="documento_troppo_grande", encode=recipe
        )
        assert f"{pages} pagine" in message


async def test_pages_are_counted_and_not_believed(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    files = [sent(corpus.lying(3, 3_000), "vanta.pdf"), sent(corpus.lying(4, 1), "nasconde.pdf"), photo()]
    assert (await accepted(gateway, tenant, *files))["documenti_pagine"] == 7
    assert "documenti_pagine" not in await accepted(gateway, tenant, photo())
    far = linked("https://example.com/a.pdf")
    assert "documenti_pagine" not in await accepted(gateway, tenant, far)
    assert (await accepted(gateway, tenant, far, pdf(pages=2)))["documenti_pagine"] == 2


# --- how they are written ---------------------------------------------------------------------------------------------


async def test_files_reach_the_model_as_they_are(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    plain = corpus.encoded(corpus.pdf(2))
    broken_lines = "\r\n".join(plain[place : place + 76] for place in range(0, len(plain), 76))
    for written in (
        plain,
        broken_lines,
        plain.rstrip("="),
        f"data:application/pdf;base64,{plain}",
        plain.replace("+", "-").replace("/", "_"),
    ):
        meta = await accepted(gateway, tenant, sent(written, "verbale.pdf", "text/plain"))
        assert meta["documenti_pagine"] == 2
        [block] = blocks_of(gateway)
        assert block["source"] == {"type": "base64", "media_type": "application/pdf", "data": plain}
        assert (block["title"], block["citations"]) == ("verbale.pdf", {"enabled": True})
    for kind, data in corpus.PHOTOS.items():
        for said in (kind, "image/jpeg", "application/pdf", None):
            await accepted(gateway, tenant, photo("senza estensione", data, said))
            [block] = blocks_of(gateway)
            assert block["source"] == {"type": "base64", "media_type": kind, "data": corpus.encoded(data)}


async def test_addresses_are_passed_on_and_never_fetched(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    document, image = "https://example.com/atti/1?firma=a%20b", "https://example.com/foto"
    files = [linked(document), linked(image, "foto", "image/png"), linked(f"{image}.JPG", "altra")]
    meta = await accepted(gateway, tenant, *files)
    assert meta["citazioni"] == []
    assert [(block["type"], block["source"]) for block in blocks_of(gateway)] == [
        ("document", {"type": "url", "url": document}),
        ("image", {"type": "url", "url": image}),
        ("image", {"type": "url", "url": f"{image}.JPG"}),
    ]
    for url in ("http://example.com/a.pdf", "https://u:p@example.com/a.pdf", "file:///etc/passwd", "", "x"):
        message = await refused(gateway, tenant, linked(url), status=400, code="documento_non_valido")
        assert "'lontano.pdf'" in message
    await refused(
        gateway, tenant, linked("https://a.it/" + "a" * 2_048), status=400, code="documento_non_valido"
    )
    assert "firma" not in gateway.log()


@pytest.mark.parametrize(
    "entry",
    [
        {"nome": "a.pdf"},
        {"nome": "a.pdf", "dati": "QQ==", "url": "https://example.com/a.pdf"},
        {"dati": "QQ=="},
        {"nome": "", "dati": "QQ=="},
        {"nome": "a\nb.pdf", "dati": "QQ=="},
        {"nome": 1, "dati": "QQ=="},
        {"nome": "a.pdf", "dati": 1},
        "a.pdf",
    ],
)
async def test_entries_that_are_none(gateway: Gateway, entry: Any) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    message = await refused(gateway, tenant, entry, status=400, code="richiesta_non_valida")
    assert "documenti" in message


async def test_a_photo_of_an_iphone_is_told_what_to_do(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    for data in (corpus.HEIC, corpus.MIF1):
        file = sent(data, "IMG_0001.HEIC", "image/jpeg")
        message = await refused(gateway, tenant, file, status=400, code="documento_non_valido")
        assert "HEIC" in message
        assert "JPEG" in message


async def test_files_that_are_broken_are_refused_by_name(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    files: dict[str, bytes | str] = {**BROKEN, "base64": "non è base64!", "empty": ""}

    async def one(name: str) -> None:
        file = sent(files[name], f"{name}.pdf", "application/pdf")
        message = await refused(gateway, tenant, pdf(), file, status=400, code="documento_non_valido")
        assert f"'{name}.pdf'" in message

    # As many at once as a project counts, so that nobody waits in vain on a slow machine.
    names = list(files)
    for place in range(0, len(names), 2):
        await asyncio.gather(*(one(name) for name in names[place : place + 2]))
