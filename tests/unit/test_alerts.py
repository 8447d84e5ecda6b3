"""What is worth an alert, and the words it is told in."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pytest

from gateway.domain.alerts import Alert, AlertKind, reached
from gateway.domain.operator_settings import (
    MOST_RECIPIENTS,
    read_address,
    read_conversation_days,
    read_mail_host,
    read_port,
    read_provider_key,
    read_recipients,
)
from gateway.wire.alerts import encode_alert, write_letter

AT = datetime(2026, 3, 3, 12, tzinfo=UTC)


def alert(kind: AlertKind, subject: str = "negozio", spent: int = 8_123_400, cap: int = 10_000_000) -> Alert:
    return Alert(kind=kind, subject=subject, day=date(2026, 3, 3), at=AT, spent=spent, cap=cap)


@pytest.mark.parametrize(
    ("spent", "cap", "kind"),
    [
        (10**9, None, None),
        (10**9, 0, None),
        (0, 10, None),
        (79, 100, None),
        (80, 100, AlertKind.CAP_NEAR),
        (99, 100, AlertKind.CAP_NEAR),
        (100, 100, AlertKind.CAP_REACHED),
        (1_000, 100, AlertKind.CAP_REACHED),
        (7, 9, None),
        (8, 9, AlertKind.CAP_NEAR),
    ],
)
def test_what_is_reached(spent: int, cap: int | None, kind: AlertKind | None) -> None:
    assert reached(spent, cap) is kind


def test_the_letters_say_who_how_much_and_what_follows() -> None:
    near = write_letter(alert(AlertKind.CAP_NEAR))
    assert near.subject == "Pepper: negozio ha speso l'80% del tetto di oggi"
    assert "ha speso 8,1234 USD dei 10,00 USD che può spendere il 03/03/2026 (81%)" in near.text
    whole = write_letter(alert(AlertKind.CAP_REACHED, spent=1_234_567_891, cap=1_000_000_000))
    assert "1.234,567891 USD dei 1.000,00 USD" in whole.text
    assert "budget_esaurito" in whole.text
    circuit = write_letter(alert(AlertKind.CIRCUIT, "claude/claude-opus-5"))
    assert circuit.subject == "Pepper: claude-opus-5 di claude non risponde"
    for kind in AlertKind:
        letter = write_letter(alert(kind, "claude/x" if kind is AlertKind.CIRCUIT else "negozio"))
        assert "\n" not in letter.subject
        assert letter.text.endswith("\n")


def test_what_is_posted() -> None:
    assert json.loads(encode_alert(alert(AlertKind.CAP_NEAR))) == {
        "allarme": "tetto_80",
        "giorno": "2026-03-03",
        "progetto": "negozio",
        "spesa_usd": 8.1234,
        "tetto_usd": 10.0,
    }
    assert json.loads(encode_alert(alert(AlertKind.CIRCUIT, "openai/ft:gpt/x"))) == {
        "allarme": "circuito_aperto",
        "giorno": "2026-03-03",
        "provider": "openai",
        "modello": "ft:gpt/x",
    }
    assert json.loads(encode_alert(alert(AlertKind.TEST))) == {"allarme": "prova", "giorno": "2026-03-03"}


def test_an_alert_has_one_name_at_every_attempt_and_each_its_own() -> None:
    names = {alert(kind, subject).id for kind in AlertKind for subject in ("a", "b")}
    assert len(names) == 8
    assert alert(AlertKind.CAP_NEAR, spent=1).id == alert(AlertKind.CAP_NEAR, spent=2).id
    assert all(len(name) == 28 and name.startswith("all_") for name in names)


def test_what_owners_type_is_read_strictly() -> None:
    assert read_recipients(" a@b.it,\n c@d.it  a@b.it ") == ("a@b.it", "c@d.it")
    assert read_recipients("") == ()
    many = " ".join(f"a{n}@b.it" for n in range(MOST_RECIPIENTS + 1))
    for wrong in ("a", "a@", "@b", "a@b@c", "a@b..it", "<a@b.it>", "à@b.it", "a@b.it\x00", "a@-b.it", many):
        with pytest.raises(ValueError):
            read_recipients(wrong)
    assert read_address("Nome.Cognome+x@posta.example") == "Nome.Cognome+x@posta.example"
    for wrong in ("a b@c.it", "a@b.it\r\nBcc: x@y.it", "x" * 300 + "@b.it"):
        with pytest.raises(ValueError):
            read_address(wrong)
    assert read_provider_key("  sk-1 \n") == "sk-1"
    for wrong in ("", "a b", "chiavè", "a\x00b", "x" * 501):
        with pytest.raises(ValueError):
            read_provider_key(wrong)
    assert [read_mail_host(one) for one in ("localhost", "smtp.x.it", "10.0.0.1", "::1")]
    for wrong in ("", "a b", "x/y", "http://x", "-x", "é.it"):
        with pytest.raises(ValueError):
            read_mail_host(wrong)
    assert (read_port("25"), read_conversation_days(" 30 ")) == (25, 30)
    for wrong in ("0", "-1", "1.5", "65536", "\u0661", ""):
        with pytest.raises(ValueError):
            read_port(wrong)
    with pytest.raises(ValueError):
        read_conversation_days("3651")
