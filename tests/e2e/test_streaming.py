"""The answer in pieces: its frames, its silences, its errors, and a caller who leaves."""

from __future__ import annotations

import asyncio
import time

import pytest

from gateway.domain.calls import Outcome
from gateway.domain.catalog import ModelFallback
from tests.e2e import told
from tests.e2e.desk import Tenant
from tests.e2e.harness import Gateway
from tests.e2e.waiting import eventually
from tests.fakes import SAMPLE, FakeServer, cut_after, error_event, hang, refuse, say, status, truncate, until


@pytest.fixture(params=["claude", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fake_of(gateway: Gateway, provider: str) -> FakeServer:
    return gateway.fakes.claude if provider == "claude" else gateway.fakes.openai


async def row_of(gateway: Gateway, tenant: Tenant, outcome: Outcome) -> object:
    async def found() -> object:
        return [row for row in await gateway.desk.rows(tenant) if row.outcome is outcome]

    return await eventually(found, 3)


async def test_the_pieces_make_up_the_answer(gateway: Gateway, provider: str) -> None:
    tenant, _ = await gateway.tenant_of_its_own(provider=provider)
    fake_of(gateway, provider).script(say(SAMPLE, pieces=6, delay=0.1, input_tokens=1_000, output_tokens=100))
    async with gateway.stream(tenant, conversazione="nuova") as stream:
        events = await stream.all()
    *deltas, done = events
    assert [event.name for event in events] == ["delta"] * len(deltas) + ["done"]
    assert "".join(event.data["text"] for event in deltas) == done.data["risposta"] == SAMPLE
    told.check_answer(done.data)
    assert done.data["meta"]["richiesta"] == stream.response.headers["x-request-id"]
    assert done.data["conversazione"].startswith("cnv_")
    assert len(deltas) > 2
    assert deltas[-1].at - deltas[0].at > 0.2, "the pieces came all at once"
    [row] = await gateway.desk.rows(tenant)
    assert row.cost == 1_000 * 5 + 100 * 25


async def test_errors_before_the_stream_are_plain(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(per_hour=1)
    told.error(await gateway.ask(tenant, stream=True, encode="mai"), 404, "encode_sconosciuto")
    told.error(await gateway.ask(tenant, "", stream=True), 400, "richiesta_non_valida")
    async with gateway.stream(tenant) as stream:
        await stream.told()
    told.error(await gateway.ask(tenant, stream=True), 429, "troppe_richieste")


async def test_errors_in_the_stream_are_events(gateway: Gateway, provider: str) -> None:
    tenant, _ = await gateway.tenant_of_its_own(provider=provider)
    fake = fake_of(gateway, provider)
    for behaviour, pieces, code, outcome in (
        (status(400), "", "errore_ai", Outcome.FAILED),
        (status(429, retry_after=100), "", "ai_non_disponibile", Outcome.FAILED),
        (refuse(), "", "richiesta_rifiutata", Outcome.REFUSED),
        (cut_after(2), None, "ai_non_disponibile", Outcome.FAILED),
        (error_event(after=2), None, "ai_non_disponibile", Outcome.FAILED),
    ):
        fake.script(behaviour)
        async with gateway.stream(tenant) as stream:
            text, found = await stream.failed()
        assert found == code, behaviour
        assert pieces is None or text == pieces
        assert bool(text) is (pieces is None)
        row = (await gateway.desk.rows(tenant))[-1]
        assert (row.outcome, row.fault) == (outcome, code)
        assert (row.cost > 0) is (pieces is None or outcome is Outcome.REFUSED), behaviour


async def test_nothing_is_repeated_once_text_is_out(gateway: Gateway) -> None:
    gateway.teach("claude", "claude-stream-reserve")
    await gateway.desk.price("claude-stream-reserve", 1.0, 1.0)
    tenant, _ = await gateway.tenant_of_its_own(fallback=ModelFallback("claude-stream-reserve"))
    gateway.fakes.claude.script(cut_after(1))
    async with gateway.stream(tenant, conversazione="nuova") as stream:
        await stream.failed()
    assert len(gateway.fakes.claude.seen) == 1
    gateway.fakes.claude.reset()
    gateway.fakes.claude.script(status(500), status(400), say("Riserva."))
    async with gateway.stream(tenant) as stream:
        body = await stream.told()
    assert body["meta"]["tentativi"] == 3
    assert body["meta"]["ripiego"] == "modello:claude-stream-reserve"


async def test_a_truncated_stream_says_so(gateway: Gateway, provider: str) -> None:
    tenant, _ = await gateway.tenant_of_its_own(provider=provider)
    fake_of(gateway, provider).script(truncate("Troppo lungo per"))
    async with gateway.stream(tenant) as stream:
        body = await stream.told()
    assert body["meta"]["troncata"] is True


async def test_a_caller_who_leaves_stops_the_provider_and_pays_what_came(
    gateway: Gateway, provider: str
) -> None:
    tenant, _ = await gateway.tenant_of_its_own(provider=provider)
    conversation = told.answer(await gateway.ask(tenant, "Prima.", conversazione="nuova"))["conversazione"]
    fake = fake_of(gateway, provider)
    fake.reset()
    fake.script(say("parola " * 100, pieces=100, delay=0.2, input_tokens=1_000))
    read = ""
    async with gateway.stream(tenant, "Poi.", conversazione=conversation) as stream:
        async for event in stream.events():
            read += event.data["text"]
            if len(read) > 10:
                break
    left = time.monotonic()
    await until(lambda: fake.seen[0].outcome != "open", 3)
    assert fake.seen[0].outcome == "closed"
    assert time.monotonic() - left < 1.5
    await row_of(gateway, tenant, Outcome.INTERRUPTED)
    *_, row = await gateway.desk.rows(tenant)
    assert (row.outcome, row.fault) == (Outcome.INTERRUPTED, None)
    assert 0 < row.cost < 1_000 * 5 + 300 * 25
    pairs = await gateway.desk.pairs(tenant, conversation)
    assert pairs is not None
    first, (question, partial) = pairs
    assert first[0] == "Prima."
    assert question == "Poi."
    assert partial.startswith(read)
    assert len(partial) < len("parola " * 100)


async def test_a_caller_who_leaves_before_the_first_piece_leaves_no_pair(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    conversation = told.answer(await gateway.ask(tenant, "Prima.", conversazione="nuova"))["conversazione"]
    gateway.fakes.claude.reset()
    gateway.fakes.claude.script(hang())
    async with gateway.stream(tenant, conversazione=conversation):
        await until(lambda: gateway.fakes.claude.seen, 3)
    await until(lambda: gateway.fakes.claude.seen[0].outcome == "closed", 1.5)
    await row_of(gateway, tenant, Outcome.INTERRUPTED)
    assert await gateway.desk.pairs(tenant, conversation) == [("Prima.", "Va bene, è fatto.")]
    # Nothing is tried again for somebody who is gone.
    await asyncio.sleep(1)
    assert len(gateway.fakes.claude.seen) == 1


async def test_a_caller_who_leaves_between_attempts_is_noticed(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.script(status(429, retry_after=15))
    async with gateway.stream(tenant):
        await until(lambda: gateway.fakes.claude.seen and gateway.fakes.claude.seen[0].finished, 3)
    await row_of(gateway, tenant, Outcome.INTERRUPTED)
    assert len(gateway.fakes.claude.seen) == 1


async def test_a_caller_who_leaves_frees_the_budget(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own(cap=0.10, usd=(0.0, 30.0))
    gateway.fakes.claude.script(say("a b c d e f", pieces=6, delay=5, input_tokens=10))
    async with gateway.stream(tenant) as stream:
        async for _ in stream.events():
            break
    gateway.fakes.claude.default = say("Ecco.", output_tokens=10)
    began = time.monotonic()
    told.answer(await gateway.ask(tenant))
    assert time.monotonic() - began < 3


async def test_a_whole_answer_is_finished_though_its_caller_left(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.script(say("Finita.", first_delay=1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await gateway.ask(tenant, conversazione="nuova")
    await row_of(gateway, tenant, Outcome.OK)
    assert gateway.fakes.claude.seen[0].finished


async def test_many_streams_at_once(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    gateway.fakes.claude.default = say("uno due tre quattro cinque", pieces=5, delay=0.2)

    async def one() -> None:
        async with gateway.stream(tenant) as stream:
            assert (await stream.told())["risposta"] == "uno due tre quattro cinque"

    await asyncio.gather(*(one() for _ in range(64)))
    assert gateway.fakes.claude.peak > 32


@pytest.mark.slow
async def test_silence_is_filled_with_pings(gateway: Gateway) -> None:
    """Before the first piece, between two pieces, and also while the provider is being asked again."""
    tenant = await gateway.desk.project()
    other = await gateway.desk.project(brain="Pepper 6 · OpenAI")
    gateway.fakes.claude.script(say("Tardi.", first_delay=17), say("uno due", pieces=2, delay=17))
    gateway.fakes.openai.script(status(429, retry_after=16), say("Infine."))

    async def names(who: Tenant) -> list[str]:
        async with gateway.stream(who) as stream:
            return [event.name for event in await stream.all()]

    first = asyncio.ensure_future(names(tenant))
    await until(lambda: len(gateway.fakes.claude.seen) == 1, 3)
    found = await asyncio.gather(first, names(tenant), names(other))
    assert found[0][0] == ":"
    assert found[1] == ["delta", ":", "delta", "done"]
    assert found[2][0] == ":"
    assert all(one.count(":") == 1 and one[-1] == "done" for one in found)
