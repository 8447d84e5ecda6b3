"""Forced forms of the answer over both providers, whatever the names of fields and categories are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e import told
from tests.e2e.desk import Tenant
from tests.e2e.harness import Gateway
from tests.fakes import FakeServer, Seen, quiet_end, say, shaped, truncate

HOSTILE = [
    "Codice fiscale",
    "città/provincia",
    'con "virgolette"',
    "barra \\ rovescia",
    "$ref",
    "__proto__",
    "{{modello}}",
    "<script>",
    "a\tb",
    "🌶️ emoji",
    "日本語",
    "%s %d",
    "additionalProperties",
    "x" * 100,
    " spazi attorno ",
    "ok",
]


@pytest.fixture(scope="module")
def backend() -> str:
    """No store has a part in it."""
    return "embedded"


@pytest.fixture(params=["claude", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fake_of(gateway: Gateway, provider: str) -> FakeServer:
    return gateway.fakes.claude if provider == "claude" else gateway.fakes.openai


async def tenant_of(gateway: Gateway, provider: str) -> Tenant:
    return await gateway.desk.project(brain="Pepper 6" if provider == "claude" else "Pepper 6 · OpenAI")


def names_in(seen: Seen) -> list[str]:
    """The properties of the schema that was sent."""
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("properties"), dict):
                found.extend(value["properties"])
            for one in value.values():
                look(one)
        elif isinstance(value, list):
            for one in value:
                look(one)

    look(seen.body)
    return found


@pytest.mark.parametrize("names", [["nome"], HOSTILE, [f"campo {n}" for n in range(50)]], ids=len)
async def test_exactly_these_fields(gateway: Gateway, provider: str, names: list[str]) -> None:
    tenant = await tenant_of(gateway, provider)
    body = told.answer(
        await gateway.ask(tenant, "Nome: Rossi", encode="estrai", extra={"campi": names, "senza_cache": True})
    )
    fields = json.loads(body["risposta"])
    assert list(fields) == names
    assert all(value is None or isinstance(value, str) for value in fields.values())
    [seen] = fake_of(gateway, provider).seen
    assert names_in(seen)
    assert all(name.isascii() and name.replace("_", "").isalnum() for name in names_in(seen))


@pytest.mark.parametrize(
    "options",
    [["sì", "no"], HOSTILE, [f"categoria {n}" for n in range(100)], ["y" * 200, "z" * 200]],
    ids=["two", "hostile", "hundred", "long"],
)
async def test_one_of_these_categories(gateway: Gateway, provider: str, options: list[str]) -> None:
    tenant = await tenant_of(gateway, provider)
    body = told.answer(
        await gateway.ask(
            tenant, "Boh", encode="classifica", extra={"categorie": options, "senza_cache": True}
        )
    )
    assert body["risposta"] in options


async def test_without_the_parameters_nothing_is_forced(gateway: Gateway, provider: str) -> None:
    tenant = await tenant_of(gateway, provider)
    fake_of(gateway, provider).script(say("Testo libero."))
    body = told.answer(await gateway.ask(tenant, encode="estrai"))
    assert body["risposta"] == "Testo libero."
    [seen] = fake_of(gateway, provider).seen
    assert names_in(seen) == []


@pytest.mark.parametrize(
    ("recipe", "extra"),
    [
        ("estrai", {"campi": []}),
        ("estrai", {"campi": "nome"}),
        ("estrai", {"campi": [""]}),
        ("estrai", {"campi": ["  "]}),
        ("estrai", {"campi": ["a", "a"]}),
        ("estrai", {"campi": [1]}),
        ("estrai", {"campi": {"a": 1}}),
        ("estrai", {"campi": ["x" * 101]}),
        ("estrai", {"campi": [f"c{n}" for n in range(51)]}),
        ("classifica", {"categorie": ["una"]}),
        ("classifica", {"categorie": ["a", "a"]}),
        ("classifica", {"categorie": ["a", None]}),
        ("classifica", {"categorie": ["a", "x" * 201]}),
        ("classifica", {"categorie": [f"c{n}" for n in range(101)]}),
    ],
)
async def test_what_cannot_be_a_form_is_refused(gateway: Gateway, recipe: str, extra: dict[str, Any]) -> None:
    tenant = await gateway.desk.project()
    message = told.error(await gateway.ask(tenant, encode=recipe, extra=extra), 400, "richiesta_non_valida")
    assert next(iter(extra)) in message
    assert gateway.fakes.claude.seen == []


async def test_a_form_that_was_cut_is_never_passed_on(gateway: Gateway, provider: str) -> None:
    tenant = await tenant_of(gateway, provider)
    fake_of(gateway, provider).default = truncate('{"field_1": "a')
    response = await gateway.ask(tenant, encode="estrai", extra={"campi": ["nome"]})
    told.error(response, 502, "errore_ai")
    [row] = await gateway.desk.rows(tenant)
    assert row.cost > 0


async def test_what_does_not_keep_the_form_is_tried_again(gateway: Gateway, provider: str) -> None:
    tenant, _ = await gateway.tenant_of_its_own(provider=provider)
    fake = fake_of(gateway, provider)
    for bad in (say("Non è JSON."), say('["a"]'), quiet_end(1, '{"a": "b"}')):
        fake.script(bad, shaped())
        body = told.answer(
            await gateway.ask(tenant, encode="estrai", extra={"campi": ["nome"], "senza_cache": True})
        )
        assert list(json.loads(body["risposta"])) == ["nome"]
        assert body["meta"]["tentativi"] == 2


async def test_a_form_comes_in_one_piece(gateway: Gateway, provider: str) -> None:
    tenant = await tenant_of(gateway, provider)
    fake_of(gateway, provider).script(shaped(delay=0.01))
    extra = {"campi": ["nome", "cognome"], "senza_cache": True}
    async with gateway.stream(tenant, encode="estrai", extra=extra) as stream:
        events = await stream.all()
    assert [event.name for event in events] == ["delta", "done"]
    assert events[0].data["text"] == events[1].data["risposta"]
    assert list(json.loads(events[0].data["text"])) == ["nome", "cognome"]
