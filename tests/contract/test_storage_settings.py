"""What owners set, and alerts, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import select, update

from gateway.domain.alerts import AFTER_SECONDS, AlertKind, Channel
from gateway.domain.operator_settings import (
    ALERT_SECRET,
    MAIL_PASSWORD,
    MailServer,
    PanelSettings,
    Security,
)
from gateway.storage import schema
from gateway.storage.alerts import Alerts
from gateway.storage.audit import read_audit
from gateway.storage.configuration import read_configuration
from gateway.storage.database import Database
from gateway.storage.first_start import install
from gateway.storage.operator_settings import OperatorSettings, opened_keys
from gateway.storage.refusals import RefusalError
from gateway.storage.sealing import Seal
from tests.unit.storage.stores import ANNA, KINDS, NOW, TODAY, opened, place_of

SEAL = Seal(b"un segreto di prova, abbastanza lungo per tutti")
OTHER = Seal(b"un altro segreto, anche lui abbastanza lungo per tutti")
KEY = "sk-una-chiave-di-prova-abcd"
SERVER = MailServer(
    host="posta.example", port=587, security=Security.STARTTLS, user="io", sender="io@example.it"
)
BOTH = (Channel.MAIL, Channel.WEBHOOK)


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(place_of(request, tmp_path)) as database:
        await install(database, NOW)
        yield database


@pytest.fixture
def settings(database: Database) -> OperatorSettings:
    return OperatorSettings(database, SEAL)


@pytest.fixture
def alerts(database: Database) -> Alerts:
    return Alerts(database)


# --- settings -------------------------------------------------------------------------------------------------------


async def test_nothing_is_set_at_first(database: Database, settings: OperatorSettings) -> None:
    assert await settings.read() == PanelSettings()
    assert (await read_configuration(database)).settings == PanelSettings()


async def test_a_key_is_kept_sealed_replaced_and_removed(
    database: Database, settings: OperatorSettings
) -> None:
    before = (await read_configuration(database)).revision
    await settings.set_key("claude", KEY, ANNA, NOW)
    rows = await read_configuration(database)
    assert rows.revision == before + 1
    kept = rows.settings.keys["claude"]
    assert (kept.ending, kept.set_at) == ("abcd", NOW)
    assert KEY.encode() not in kept.sealed
    assert opened_keys(rows.settings, SEAL) == {"claude": KEY}
    assert opened_keys(rows.settings, OTHER) == {"claude": None}

    await settings.set_key("openai", "corta", ANNA, NOW)
    await settings.set_key("claude", KEY + "-nuova", ANNA, NOW + timedelta(days=1))
    now = await settings.read()
    assert opened_keys(now, SEAL) == {"claude": KEY + "-nuova", "openai": "corta"}
    assert now.keys["openai"].ending == "", "of a short key nothing is shown"
    await settings.set_key("claude", None, ANNA, NOW)
    await settings.set_key("claude", None, ANNA, NOW)
    assert set((await settings.read()).keys) == {"openai"}


async def test_a_key_opens_in_its_own_place_alone(database: Database, settings: OperatorSettings) -> None:
    await settings.set_key("claude", KEY, ANNA, NOW)
    table = schema.operator_settings

    async def steal(connection: object) -> None:
        await connection.execute(  # type: ignore[attr-defined]
            update(table).where(table.c.name == "key.claude").values(name="key.openai")
        )

    await database.transact(steal)
    assert opened_keys(await settings.read(), SEAL) == {"openai": None}


async def test_the_audit_has_every_change_and_no_secret(
    database: Database, settings: OperatorSettings
) -> None:
    await settings.set_key("claude", KEY, ANNA, NOW)
    await settings.set_key("claude", KEY + "-nuova", ANNA, NOW)
    await settings.set_mail(SERVER, ANNA, NOW, password="parola segreta")
    await settings.set_alert_url("https://esempio.it/a", "avs_segreto", ANNA, NOW)
    await settings.set_recipients(("uno@example.it",), ANNA, NOW)
    await settings.set_conversation_days(30, ANNA, NOW)
    await settings.set_recipients((), ANNA, NOW)
    entries = await read_audit(database)
    assert [(one.action, one.subject) for one in reversed(entries)][-7:] == [
        ("settings.set", "key.claude"),
        ("settings.set", "key.claude"),
        ("settings.set", "mail-server"),
        ("settings.set", "alert-webhook"),
        ("settings.set", "alert-recipients"),
        ("settings.set", "conversation-days"),
        ("settings.remove", "alert-recipients"),
    ]
    written = "".join(f"{bytes(one.before or b'')!r}{bytes(one.after or b'')!r}" for one in entries)
    for secret in (KEY, "parola segreta", "avs_segreto"):
        assert secret not in written
    replaced = next(one for one in entries if one.subject == "key.claude")
    assert bytes(replaced.before or b"") == b'{"value":"abcd","secret":"set"}'
    assert bytes(replaced.after or b"") == b'{"value":"uova","secret":"new"}'


async def test_a_mail_servers_password_goes_to_no_other_server(settings: OperatorSettings) -> None:
    with pytest.raises(RefusalError):
        await settings.set_mail(SERVER, ANNA, NOW)
    await settings.set_mail(SERVER, ANNA, NOW, password="parola")
    other_sender = msgspec.structs.replace(SERVER, sender="altri@example.it")
    await settings.set_mail(other_sender, ANNA, NOW)
    kept = await settings.read()
    assert kept.mail == other_sender
    assert kept.mail_password is not None
    assert SEAL.open(MAIL_PASSWORD, kept.mail_password) == "parola"
    for changed in (
        msgspec.structs.replace(SERVER, host="ladro.example"),
        msgspec.structs.replace(SERVER, port=25),
        msgspec.structs.replace(SERVER, user="tu"),
        msgspec.structs.replace(SERVER, security=Security.TLS),
    ):
        with pytest.raises(RefusalError):
            await settings.set_mail(changed, ANNA, NOW)
    assert (await settings.read()).mail == other_sender
    await settings.set_mail(msgspec.structs.replace(SERVER, user=""), ANNA, NOW)
    assert (await settings.read()).mail_password is None
    await settings.set_mail(None, ANNA, NOW)
    assert (await settings.read()).mail is None


async def test_addresses_days_and_secrets_come_back(settings: OperatorSettings) -> None:
    await settings.set_recipients(("uno@example.it", "due@example.it"), ANNA, NOW)
    await settings.set_alert_url("https://esempio.it/a", "avs_x", ANNA, NOW)
    await settings.set_conversation_days(7, ANNA, NOW)
    found = await settings.read()
    assert found.recipients == ("uno@example.it", "due@example.it")
    assert (found.alert_url, found.conversation_days) == ("https://esempio.it/a", 7)
    assert found.alert_secret is not None
    assert SEAL.open(ALERT_SECRET, found.alert_secret) == "avs_x"
    assert found.posts
    assert not found.mails, "there is no server"


async def test_what_can_not_be_read_is_not_set(database: Database, settings: OperatorSettings) -> None:
    await settings.set_conversation_days(7, ANNA, NOW)
    table = schema.operator_settings

    async def damage(connection: object) -> None:
        await connection.execute(update(table).values(value="{"))  # type: ignore[attr-defined]

    await database.transact(damage)
    assert (await settings.read()).conversation_days == PanelSettings().conversation_days


# --- alerts ---------------------------------------------------------------------------------------------------------


async def test_a_thing_is_noted_once_a_day_on_each_way(alerts: Alerts) -> None:
    await asyncio.gather(
        *(alerts.note(AlertKind.CAP_NEAR, "alfa", TODAY, BOTH, NOW) for _ in range(5)),
        alerts.note(AlertKind.CAP_REACHED, "alfa", TODAY, (Channel.MAIL,), NOW),
        alerts.note(AlertKind.CAP_NEAR, "beta", TODAY, (Channel.MAIL,), NOW),
        alerts.note(AlertKind.CIRCUIT, "claude/" + "m" * 200, TODAY, (Channel.MAIL,), NOW),
    )
    found = await alerts.pending(TODAY)
    assert sorted((one.kind, one.subject[:8], one.channel) for one in found) == [
        (AlertKind.CIRCUIT, "claude/m", Channel.MAIL),
        (AlertKind.CAP_REACHED, "alfa", Channel.MAIL),
        (AlertKind.CAP_NEAR, "alfa", Channel.MAIL),
        (AlertKind.CAP_NEAR, "alfa", Channel.WEBHOOK),
        (AlertKind.CAP_NEAR, "beta", Channel.MAIL),
    ]
    assert await alerts.pending(TODAY + timedelta(days=1)) == ()


async def test_one_of_many_makes_an_attempt_and_it_ends(database: Database, alerts: Alerts) -> None:
    await alerts.note(AlertKind.CAP_NEAR, "alfa", TODAY, BOTH, NOW)
    first, second = await alerts.pending(TODAY)
    assert first.is_due(NOW)
    assert sum(await asyncio.gather(*(alerts.take(first) for _ in range(6)))) == 1
    await alerts.told(first, NOW)
    assert not await alerts.take(first)
    [left] = await alerts.pending(TODAY)
    assert left == second
    for attempt, after in enumerate(AFTER_SECONDS):
        [left] = await alerts.pending(TODAY)
        assert left.attempts == attempt
        assert not left.is_due(NOW + timedelta(seconds=after - 1))
        assert left.is_due(NOW + timedelta(seconds=after))
        assert left.last == (attempt == len(AFTER_SECONDS) - 1)
        assert await alerts.take(left)
    assert await alerts.pending(TODAY) == ()
    await alerts.note(AlertKind.CAP_NEAR, "alfa", TODAY, BOTH, NOW)
    assert await alerts.pending(TODAY) == (), "given up is given up, for that day"
    await alerts.forget(TODAY)
    async with database.connect() as connection:
        assert len((await connection.execute(select(schema.alerts))).all()) == 2
    await alerts.forget(TODAY + timedelta(days=1))
    async with database.connect() as connection:
        assert (await connection.execute(select(schema.alerts))).all() == []


async def test_what_is_not_true_any_more_is_dropped(alerts: Alerts) -> None:
    await alerts.note(AlertKind.CAP_NEAR, "alfa", TODAY, (Channel.MAIL,), NOW)
    [pending] = await alerts.pending(TODAY)
    await alerts.give_up(pending)
    assert await alerts.pending(TODAY) == ()
