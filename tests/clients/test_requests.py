"""What the clients send: every function, every argument, and what is refused before anything is sent."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.drivers import KEY, PROJECT, Call, Driver, PhpDriver, ask, load
from tests.clients.teller import Teller, answer, say


def sent(client: Driver, teller: Teller, call: Call, reply: dict[str, Any], status: int = 200) -> Any:
    """The body of the one request that a call makes; it must succeed."""
    teller.script([say(status, reply)])
    client.value(call)
    (seen,) = teller.seen
    assert seen.method == "POST"
    assert seen.header("x-pepper-key") == KEY
    assert seen.header("content-type") == "application/json"
    assert seen.header("expect") is None
    assert seen.header("content-encoding") is None
    return seen.body


def test_the_least_that_is_asked(client: Driver, teller: Teller) -> None:
    teller.script([say(200, answer("Perché no? 🌶"))])
    assert client.value(ask("Perché? 🌶")) == answer("Perché no? 🌶")
    (seen,) = teller.seen
    assert seen.path == "/api.php"
    assert seen.body == {"progetto": PROJECT, "encode": "libero", "contenuto": "Perché? 🌶"}
    assert seen.key
    assert len(seen.key) == 32


def test_everything_that_can_be_asked(client: Driver, teller: Teller, tmp_path: Path) -> None:
    pdf, photo = tmp_path / "verbale di marzo.pdf", tmp_path / "phpA1b2C3"
    pdf.write_bytes(b"%PDF-1.7 \x00\xff")
    photo.write_bytes(b"\x89PNG")
    entry = {"nome": "foto.png", "tipo": "image/png", "dati": "AAAA"}
    call = ask(
        conversazione="nuova",
        extra={"campi": ["cliente"], "lingua": "en"},
        documenti=[str(pdf), "https://esempio.it/atti/un%20atto.pdf?x=1", "https://esempio.it", entry],
        idempotenza="pratica 4711",
    )
    assert sent(client, teller, call, answer()) == {
        "progetto": PROJECT,
        "encode": "libero",
        "contenuto": "Che ore sono?",
        "conversazione": "nuova",
        "extra": {"campi": ["cliente"], "lingua": "en"},
        "documenti": [
            {"nome": "verbale di marzo.pdf", "dati": base64.b64encode(pdf.read_bytes()).decode()},
            {"nome": "un atto.pdf", "url": "https://esempio.it/atti/un%20atto.pdf?x=1"},
            {"nome": "documento", "url": "https://esempio.it"},
            entry,
        ],
    }
    assert teller.seen[0].key == "pratica 4711"
    named = ask(documenti={"scontrino.png": str(photo), "atto.pdf": "https://esempio.it/7"})
    assert sent(client, teller, named, answer())["documenti"] == [
        {"nome": "scontrino.png", "dati": base64.b64encode(b"\x89PNG").decode()},
        {"nome": "atto.pdf", "url": "https://esempio.it/7"},
    ]


def test_large_bodies_wait_for_nobody(client: Driver, teller: Teller, tmp_path: Path) -> None:
    """Above 1 MB curl would ask first, and some proxies never answer to that."""
    pdf = tmp_path / "a.pdf"
    pdf.write_bytes(bytes(range(256)) * 8_000)
    (document,) = sent(client, teller, ask(documenti=[str(pdf)]), answer())["documenti"]
    assert base64.b64decode(document["dati"]) == pdf.read_bytes()


def test_what_is_empty_is_left_out(client: Driver, teller: Teller) -> None:
    """PHP would make a list of an empty array, and Pepper wants an object."""
    body = sent(client, teller, ask(extra={}, documenti=[], conversazione=None), answer())
    assert set(body) == {"progetto", "encode", "contenuto"}


@pytest.mark.parametrize(
    ("address", "folder"),
    [
        ("", ""),
        ("/", ""),
        ("/api.php", ""),
        ("/api.php/", ""),
        ("/sotto/pepper", "/sotto/pepper"),
        ("/sotto/api.php", "/sotto"),
        ("/api.php.it", "/api.php.it"),
    ],
)
def test_the_address_is_understood(
    make_client: Callable[..., Driver], teller: Teller, address: str, folder: str
) -> None:
    teller.script([say(200, answer())], [say(200, {"ok": True})])
    make_client(teller.url + address).run(ask(), Call("pepper_pratica", {"pratica": "prt_1"}))
    assert [seen.path for seen in teller.seen] == [f"{folder}/api.php", f"{folder}/pratica.php"]


def test_deferred_work(client: Driver, teller: Teller, tmp_path: Path) -> None:
    receipt = {"ok": True, "risposta": None, "pratica": "prt_a1b2c3d4e5f6", "stato": "in_corso"}
    texts = ["uno", "due"]
    many = Call("pepper_differito", {"encode": "riassumi", "contenuti": texts, "extra": {"lingua": "en"}})
    assert sent(client, teller, many, receipt, 202) == {
        "progetto": PROJECT,
        "encode": "riassumi",
        "modo": "differito",
        "contenuti": texts,
        "extra": {"lingua": "en"},
    }
    assert teller.seen[0].key is None
    pdf = tmp_path / "a.pdf"
    pdf.write_bytes(b"%PDF-")
    one = Call("pepper_differito", {"encode": "riassumi", "contenuti": "uno", "documenti": [str(pdf)]})
    body = sent(client, teller, one, receipt, 202)
    assert body["contenuto"] == "uno"
    assert "contenuti" not in body
    assert body["documenti"][0]["nome"] == "a.pdf"
    teller.script([say(202, receipt)])
    assert client.value(many) == "prt_a1b2c3d4e5f6"


@pytest.mark.parametrize(
    ("call", "path", "fields"),
    [
        (Call("pepper_pratica", {"pratica": "prt_1"}), "/pratica.php", {"pratica": "prt_1"}),
        (Call("pepper_capacita", {}), "/capacita.php", {}),
        (
            Call("pepper_conoscenza_carica", {"nome": "Listino", "testo": "Tetti: 100 €"}),
            "/conoscenza.php",
            {"azione": "carica", "nome": "Listino", "testo": "Tetti: 100 €"},
        ),
        (Call("pepper_conoscenza_elenco", {}), "/conoscenza.php", {"azione": "elenco"}),
        (
            Call("pepper_conoscenza_togli", {"id": 12}),
            "/conoscenza.php",
            {"azione": "togli", "documento": 12},
        ),
    ],
    ids=lambda value: value.function if isinstance(value, Call) else "",
)
def test_the_small_ones(
    client: Driver, teller: Teller, call: Call, path: str, fields: dict[str, Any]
) -> None:
    reply = {"ok": True, "progetto": PROJECT, "nuovo": [1, {"a": None}]}
    assert sent(client, teller, call, reply) == {"progetto": PROJECT, **fields}
    assert teller.seen[0].path == path
    assert teller.seen[0].key
    teller.script([say(200, reply)])
    again = Call(call.function, {**call.arguments, **({"aggiorna": True} if "capacita" in path else {})})
    assert client.value(again) == reply


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ("/no/such/file.pdf", "documento_non_valido"),
        ("/tmp", "documento_non_valido"),
        ("", "documento_non_valido"),
        ("file:///etc/hostname", "documento_non_valido"),
        ("phar:///tmp/a.phar/b.pdf", "documento_non_valido"),
        ("php://stdin", "documento_non_valido"),
        ("data://text/plain,x", "documento_non_valido"),
        ("a\0b.pdf", "documento_non_valido"),
    ],
)
def test_what_is_no_file_is_not_sent(client: Driver, teller: Teller, document: str, code: str) -> None:
    teller.script()
    error = client.error(ask(documenti=[document]))
    assert (error.code, error.retryable, error.status) == (code, False, 0)
    assert teller.seen == []


def test_files_that_are_too_large_are_not_sent(client: Driver, teller: Teller, tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(b"x" * 600)
    client.settings.attached_bytes = 1000
    teller.script([say(200, answer())])
    client.value(ask(documenti=[str(file)]))
    assert client.error(ask(documenti=[str(file), str(file)])).code == "documento_troppo_grande"
    assert len(teller.seen) == 1


def test_what_is_no_request_is_not_sent(client: Driver, teller: Teller) -> None:
    teller.script()
    calls = [ask(idempotenza=key) for key in ("", " x", "x ", "a\nb", "è", "x" * 256)]
    if isinstance(client, PhpDriver):
        calls.append(ask(b"\xe8 in Latin-1"))
    else:
        calls += [ask("\ud800"), ask(extra={"n": float("nan")}), ask(extra={"n": object()})]
    for outcome in client.run(*calls):
        assert (outcome.code, outcome.retryable) == ("richiesta_non_valida", False)
    assert teller.seen == []


BAD_KEYS = ("", "pk_a b", "pk_a\r\nX-Evil: 1", "pk_è")
BAD_ADDRESSES = (
    "",
    "gateway.example.it",
    "file:///etc/passwd",
    "https://",
    "https://x.it/?a=b",
    "https://x.it/#a",
)


@pytest.mark.php
def test_constants_that_are_missing_or_wrong(tmp_path: Path) -> None:
    good = {"PEPPER_URL": "http://127.0.0.1:9", "PEPPER_PROGETTO": PROJECT, "PEPPER_KEY": KEY}
    wrong: list[dict[str, Any]] = [
        {name: good[name] for name in good if name != left_out} for left_out in good
    ]
    wrong += [good | {"PEPPER_KEY": key} for key in (*BAD_KEYS, False)]
    wrong += [good | {"PEPPER_URL": address} for address in BAD_ADDRESSES]
    client = PhpDriver("", tmp_path)
    client.temporary.mkdir()
    for constants in wrong:
        result = client.process(constants, [ask(), Call("pepper_capacita", {})])
        assert result.returncode == 0, result.stderr
        assert result.stdout.count('"code":"configurazione"') == 2, result.stdout
        assert KEY not in result.stdout


def test_an_address_or_a_key_that_is_wrong() -> None:
    """The same for Python, told at once."""
    module = load()
    wrong = [("http://127.0.0.1:9", key) for key in BAD_KEYS] + [(address, KEY) for address in BAD_ADDRESSES]
    for address, key in wrong:
        with pytest.raises(module.PepperError) as caught:
            module.Pepper(address, PROJECT, key)
        assert caught.value.code == "configurazione"
        assert KEY not in str(caught.value)
