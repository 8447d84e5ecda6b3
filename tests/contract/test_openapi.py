"""The OpenAPI document: valid, complete, the same as what decodes and encodes, and as what the pages show."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import validate

import gateway.wire
from gateway.domain.errors import FAULTS, METHOD_NOT_ALLOWED, UNKNOWN_ADDRESS, Failure
from gateway.wire.alerts import AlertBody
from gateway.wire.glossary import Wire
from gateway.wire.knowledge import ActionBody, decode_action
from gateway.wire.openapi import examples, faults
from gateway.wire.openapi.described import DESCRIBED
from gateway.wire.requests import Envelope, decode_completion
from tests.docs import DOCS, names, page_text
from tests.openapi import check, contract, events_of, fits, operation, request_schema

NOT_PARTNERS = {AlertBody}
"""What goes to operators."""
WITHOUT_A_SCHEMA = {ActionBody, Wire}
"""What only helps to read: the schema has its three kinds."""


def test_it_is_openapi() -> None:
    validate(contract())
    assert contract()["openapi"].startswith("3.1.")


def test_every_struct_of_the_wire_is_in_it() -> None:
    found: set[type[Wire]] = set()
    for module in pkgutil.walk_packages(gateway.wire.__path__, "gateway.wire."):
        loaded = importlib.import_module(module.name)
        found |= {kind for kind in vars(loaded).values() if isinstance(kind, type) and issubclass(kind, Wire)}
    assert found - NOT_PARTNERS - WITHOUT_A_SCHEMA == set(DESCRIBED)


def test_names_are_their_own_and_everything_is_used() -> None:
    told = [each.name for each in DESCRIBED.values()]
    assert len(told) == len(set(told))
    text = json.dumps(contract())
    schemas = contract()["components"]["schemas"]
    assert [name for name in schemas if f'"#/components/schemas/{name}"' not in text] == []


def test_every_error_is_somewhere_and_no_other() -> None:
    told = {fault for address in faults.BY_ADDRESS.values() for fault in address}
    assert told == set(FAULTS) - {METHOD_NOT_ALLOWED, UNKNOWN_ADDRESS}
    assert set(faults.BY_ADDRESS) == set(contract()["paths"]) - {"/stato.php"}


@pytest.mark.parametrize("address", faults.BY_ADDRESS)
def test_an_address_has_the_codes_of_its_errors_by_status(address: str) -> None:
    for fault in faults.BY_ADDRESS[address]:
        reply = operation(address)["responses"][str(fault.status)]
        assert fault.code in reply["description"]
        schema = reply["content"]["application/json"]["schema"]
        error = {"ok": False, "errore": {"codice": fault.code, "messaggio": fault.message}}
        check(error, schema)
        assert not fits({**error, "errore": {"codice": "mai_visto", "messaggio": ""}}, schema)
        assert ("Retry-After" in reply["headers"]) == (fault.status in {429, 503})


# --- examples -------------------------------------------------------------------------------------------------------


def _contents(node: Any) -> Any:
    """Every schema that has examples."""
    if isinstance(node, dict):
        if "schema" in node and "examples" in node:
            yield node
        for each in node.values():
            yield from _contents(each)
    elif isinstance(node, list):
        for each in node:
            yield from _contents(each)


def test_examples_are_of_their_schemas() -> None:
    found = list(_contents({"paths": contract()["paths"], "webhooks": contract()["webhooks"]}))
    assert len(found) > 30
    for content in found:
        for example in content["examples"].values():
            check(example["value"], content["schema"])


def test_every_body_and_success_has_an_example() -> None:
    for address in ("/api.php", "/pratica.php", "/capacita.php", "/conoscenza.php"):
        told = operation(address)
        contents = [told["requestBody"]["content"], *(each["content"] for each in told["responses"].values())]
        assert all(kind["examples"] for content in contents for kind in content.values())


def test_the_events_of_the_example_are_events() -> None:
    schema = {"$ref": "#/components/schemas/Evento"}
    for event in events_of(examples.stream()):
        check(event, schema)
    assert set(examples.events()) == {"delta", "done", "error", "tool_call", "tool_done"}


def _shown(*pages: str) -> list[Any]:
    """Every JSON that pages show: in blocks, and after `-d` of curl."""
    found: list[Any] = []
    for page in pages:
        text = page_text(page)
        blocks = re.findall(r"^```json[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        bodies = re.findall(r"-d '(\{.*?\})'", text, re.DOTALL)
        for block in [*blocks, *bodies]:
            try:
                found.append(json.loads(block))
            except ValueError:  # a part of a body, or a shortened one
                continue
    return found


ENGLISH = ("contract.md", "attachments.md", "deferred.md", "knowledge.md", "quick-start.md")
ITALIAN = (
    "it/contratto.md",
    "it/documenti.md",
    "it/differito.md",
    "it/conoscenza.md",
    "it/primi-passi.md",
)


@pytest.mark.parametrize("pages", [ENGLISH, ITALIAN], ids=["English", "Italian"])
def test_the_pages_show_the_same_examples(pages: tuple[str, ...]) -> None:
    shown = _shown(*pages)
    bodies = {
        **examples.REQUESTS,
        **examples.COLLECTION,
        **examples.QUESTION,
        **{f"azione {name}": body for name, body in examples.ACTIONS.items()},
    }
    assert [name for name, body in bodies.items() if body not in shown] == []
    replies = {
        "risposta": examples.answers()["risposta"],
        **examples.receipt(),
        "pronta": examples.states()["pronta"],
        "carica": examples.knowledge()["carica"],
        "elenco": examples.knowledge()["elenco"],
        **examples.notice(),
    }
    assert [name for name, reply in replies.items() if reply not in shown] == []


@pytest.mark.parametrize("pages", [ENGLISH, ITALIAN], ids=["English", "Italian"])
def test_whatever_the_pages_show_is_of_a_schema(pages: tuple[str, ...]) -> None:
    known = [{"$ref": f"#/components/schemas/{each.name}"} for each in DESCRIBED.values()]
    shown = _shown(*pages)
    assert len(shown) >= 15
    for body in shown:
        assert any(fits(body, schema) for schema in known), body


# --- the same as the decoder ----------------------------------------------------------------------------------------

REQUEST = {"progetto": "p", "encode": "libero", "contenuto": "Ciao"}
SEVERAL = {"progetto": "p", "encode": "libero", "modo": "differito", "contenuti": ["Uno", "Due"]}
PDF = {"nome": "a.pdf", "dati": "JVBERi0="}
ODD: tuple[Any, ...] = (None, 1, [], {}, True)
BODIES: list[dict[str, Any]] = [
    REQUEST,
    SEVERAL,
    {**REQUEST, "sconosciuto": 1},
    {**REQUEST, **dict.fromkeys(("conversazione", "extra", "documenti", "modo", "contenuti", "stream"))},
    *({name: value for name, value in REQUEST.items() if name != missing} for missing in REQUEST),
    *({**REQUEST, name: value} for name in REQUEST for value in ODD),
    {**REQUEST, "contenuto": ""},
    {**REQUEST, "contenuto": " \n\t"},
    {**REQUEST, "contenuto": "è" * 100_000},
    {**REQUEST, "contenuto": "🌶" * 100_000},
    {**REQUEST, "contenuto": "è" * 100_001},
    {**REQUEST, "conversazione": "nuova"},
    {**REQUEST, "conversazione": 3},
    {**REQUEST, "extra": {"lingua": "en", "altro": [1, None]}},
    {**REQUEST, "extra": []},
    {**REQUEST, "extra": "en"},
    {**REQUEST, "stream": True},
    {**REQUEST, "stream": "true"},
    {**REQUEST, "stream": 1},
    {**REQUEST, "modo": "subito"},
    {**REQUEST, "modo": "differito"},
    {**REQUEST, "modo": "dopo"},
    {**REQUEST, "modo": "differito", "stream": True},
    {**REQUEST, "modo": "differito", "stream": False},
    {**REQUEST, "modo": "differito", "conversazione": "nuova"},
    {**REQUEST, "modo": "differito", "conversazione": None},
    {**REQUEST, "modo": "differito", "documenti": [PDF]},
    {**REQUEST, "contenuti": ["Uno"]},
    {**SEVERAL, "modo": "subito"},
    {**SEVERAL, "modo": None},
    {**SEVERAL, "contenuti": []},
    {**SEVERAL, "contenuti": ["Uno"] * 100},
    {**SEVERAL, "contenuti": ["Uno"] * 101},
    {**SEVERAL, "contenuti": ["Uno", ""]},
    {**SEVERAL, "contenuti": ["Uno", None]},
    {**SEVERAL, "contenuti": "Uno"},
    {**SEVERAL, "documenti": [PDF]},
    {**SEVERAL, "documenti": []},
    {**SEVERAL, "contenuto": "Ciao"},
    {**REQUEST, "documenti": []},
    {**REQUEST, "documenti": [PDF, PDF]},
    {**REQUEST, "documenti": PDF},
    {**REQUEST, "documenti": [{"nome": "a.pdf"}]},
    {**REQUEST, "documenti": [{"dati": "JVBERi0="}]},
    {**REQUEST, "documenti": [{**PDF, "url": "https://esempio.it/a.pdf"}]},
    {**REQUEST, "documenti": [{**PDF, "url": None, "tipo": None}]},
    {**REQUEST, "documenti": [{"nome": "a", "url": "https://esempio.it/a.pdf", "tipo": "application/pdf"}]},
    {**REQUEST, "documenti": [{**PDF, "tipo": 3}]},
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: json.dumps(body)[:60])
def test_a_request_is_of_the_schema_if_it_is_decoded(body: dict[str, Any]) -> None:
    judged = fits(body, request_schema("/api.php"), contract())
    assert judged == _decoded(decode_completion, body, [])


NUMBERS: tuple[Any, ...] = (None, "12", True, 12.5, [])
ACTIONS: list[dict[str, Any]] = [
    *examples.ACTIONS.values(),
    {"progetto": "p"},
    {"progetto": "p", "azione": "boh"},
    {"progetto": "p", "azione": None},
    {"progetto": "p", "azione": 1},
    {"progetto": "p", "azione": "elenco", "nome": 3},
    *({"progetto": "p", "azione": "togli", "documento": value} for value in NUMBERS),
    {"progetto": "p", "azione": "togli"},
    *({"progetto": "p", "azione": "carica", "nome": "a", "testo": text} for text in ("", " ", None, 1)),
    *(
        {"progetto": "p", "azione": "carica", "nome": name, "testo": "b"}
        for name in (
            "",
            " ",
            None,
            1,
            "a",
            "è" * 200,
            "è" * 201,
            f" {'è' * 200}\n",
            "a\nb",
            "a\u202eb",
            "a\x00b",
        )
    ),
    {"progetto": "p", "azione": "carica", "nome": "a", "testo": "è" * 500_000},
    {"progetto": "p", "azione": "carica", "nome": "a", "testo": "è" * 500_001},
]


@pytest.mark.parametrize("body", ACTIONS, ids=lambda body: json.dumps(body)[:60])
def test_an_action_is_of_the_schema_if_it_is_decoded(body: dict[str, Any]) -> None:
    judged = fits(body, request_schema("/conoscenza.php"), contract())
    assert judged == _decoded(decode_action, body)


def _decoded(decode: Any, body: dict[str, Any], *more: Any) -> bool:
    try:
        decode(Envelope("p", body), *more)
    except Failure:
        return False
    return True


def test_the_judge_judges() -> None:
    """So that a schema that lets everything through would be noticed."""
    schema = {"$ref": "#/components/schemas/Risposta"}
    answer = examples.answers()["risposta"]
    check(answer, schema)
    for wrong in ({**answer, "ok": False}, {**answer, "nuovo": 1}, {**answer, "meta": {}}):
        with pytest.raises(jsonschema.ValidationError):
            check(wrong, schema)


# --- the pages ------------------------------------------------------------------------------------------------------


def test_the_operations_are_listed() -> None:
    told = {
        method["operationId"]: f"{word.upper()} {address}"
        for address, methods in contract()["paths"].items()
        for word, method in methods.items()
    }
    [notice] = (each["post"]["operationId"] for each in contract()["webhooks"].values())
    listed = names(page_text("api.md"))
    assert listed == [*told, notice]
    for name, address in told.items():
        assert f"| `{name}` | `{address}` |" in page_text("api.md")


@pytest.mark.parametrize("folder", ["", "it"], ids=["English", "Italian"])
def test_every_name_of_the_wire_is_on_a_page(folder: str) -> None:
    """Fields, and the words that a field may take."""
    text = "\n".join(page.read_text() for page in (DOCS / folder).glob("*.md"))
    words = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`\n]+)`", text) + _blocks(text))))
    for told in DESCRIBED.values():
        schema = contract()["components"]["schemas"][told.name]
        for name, field in schema["properties"].items():
            assert name in words, (told.name, name)
            constant = field.get("const")
            for value in [*field.get("enum", ()), *([constant] if isinstance(constant, str) else ())]:
                assert value is None or value in text, (told.name, name, value)


def _blocks(text: str) -> list[str]:
    return re.findall(r"^```[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
