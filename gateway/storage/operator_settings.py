"""What owners set in the panel, in the database: a row a setting, secrets sealed, each change audited without them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

import msgspec
from sqlalchemy import delete, insert, select, update

from gateway.domain.operator_settings import (
    ALERT_SECRET,
    CONVERSATION_DAYS,
    MAIL_PASSWORD,
    KeptKey,
    MailServer,
    PanelSettings,
    ending_of,
    key_purpose,
)
from gateway.storage import schema
from gateway.storage.audit import begin_change, record_change
from gateway.storage.refusals import RefusalError
from gateway.storage.sealing import SealBrokenError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from sqlalchemy import RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.domain.tenants import Operator
    from gateway.storage.database import Database
    from gateway.storage.sealing import Seal

Value = TypeVar("Value")

KEY = "key."
RETENTION = "conversation-days"
RECIPIENTS = "alert-recipients"
MAIL = "mail-server"
WEBHOOK = "alert-webhook"

log = logging.getLogger(__name__)


class _Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the audit has of a setting."""

    value: str = ""
    secret: str = ""


class OperatorSettings:
    """The settings, and their changes."""

    def __init__(self, database: Database, seal: Seal) -> None:
        self._database = database
        self._seal = seal

    async def read(self) -> PanelSettings:
        """Give everything as it is now."""
        async with self._database.connect() as connection:
            return await read_panel_settings(connection)

    async def set_key(self, provider: str, key: str | None, by: Operator, at: datetime) -> None:
        """Set a provider's key in place of the one that was set before; None removes it."""
        name = f"{KEY}{provider}"
        if key is None:
            await self._remove(name, by, at)
            return
        await self._set(name, ending_of(key), self._seal.close(key_purpose(provider), key), by=by, at=at)

    async def set_conversation_days(self, days: int, by: Operator, at: datetime) -> None:
        """Set how long conversations are kept."""
        await self._set(RETENTION, str(days), None, by=by, at=at)

    async def set_recipients(self, recipients: tuple[str, ...], by: Operator, at: datetime) -> None:
        """Set whom alerts are mailed to; nobody, if there is none."""
        if not recipients:
            await self._remove(RECIPIENTS, by, at)
            return
        await self._set(RECIPIENTS, msgspec.json.encode(recipients).decode(), None, by=by, at=at)

    async def set_mail(
        self,
        server: MailServer | None,
        by: Operator,
        at: datetime,
        *,
        password: str | msgspec.UnsetType = msgspec.UNSET,
    ) -> None:
        """Set who takes our mail; None is nobody. Without a new password the one that is there stays.

        Raises:
            RefusalError: There is none, or it would be shown to another server than the one it was given for.

        """
        if server is None:
            await self._remove(MAIL, by, at)
            return
        sealed: bytes | msgspec.UnsetType | None = msgspec.UNSET
        if not server.user:
            sealed = None
        elif password is not msgspec.UNSET:
            sealed = self._seal.close(MAIL_PASSWORD, password)

        def check(before: RowMapping | None) -> None:
            known = None if before is None else _read(before, MailServer)
            kept = known is not None and before is not None and before["sealed"] is not None
            if sealed is msgspec.UNSET and not (kept and _same_login(known, server)):
                raise RefusalError("the password must be given anew for this server and user")

        await self._set(MAIL, msgspec.json.encode(server).decode(), sealed, by=by, at=at, check=check)

    async def set_alert_url(self, url: str | None, secret: str, by: Operator, at: datetime) -> None:
        """Set where alerts are posted and what signs them from now on; None is nowhere."""
        if url is None:
            await self._remove(WEBHOOK, by, at)
            return
        await self._set(WEBHOOK, url, self._seal.close(ALERT_SECRET, secret), by=by, at=at)

    async def _set(
        self,
        name: str,
        value: str,
        sealed: bytes | msgspec.UnsetType | None,
        *,
        by: Operator,
        at: datetime,
        check: Callable[[RowMapping | None], None] | None = None,
    ) -> None:
        table = schema.operator_settings
        fresh: dict[str, object] = {"value": value, "changed_at": at}
        if sealed is not msgspec.UNSET:
            fresh["sealed"] = sealed

        async def work(connection: AsyncConnection) -> None:
            await begin_change(connection)
            before = await _row(connection, name)
            if check is not None:
                check(before)
            if before is None:
                await connection.execute(insert(table).values(name=name, **fresh))
            else:
                await connection.execute(update(table).where(table.c.name == name).values(fresh))
            after = await _row(connection, name)
            await _record(connection, name, before, after, by=by, at=at)

        await self._database.transact(work)

    async def _remove(self, name: str, by: Operator, at: datetime) -> None:
        table = schema.operator_settings

        async def work(connection: AsyncConnection) -> None:
            await begin_change(connection)
            before = await _row(connection, name)
            if before is None:
                return
            await connection.execute(delete(table).where(table.c.name == name))
            await _record(connection, name, before, None, by=by, at=at)

        await self._database.transact(work)


async def read_panel_settings(connection: AsyncConnection) -> PanelSettings:
    """Read everything in a connection that is open."""
    rows = (await connection.execute(select(schema.operator_settings))).mappings()
    found = {row["name"]: row for row in rows}
    mail, webhook = found.get(MAIL), found.get(WEBHOOK)
    return PanelSettings(
        keys={
            name.removeprefix(KEY): KeptKey(
                ending=row["value"] or "", sealed=row["sealed"] or b"", set_at=row["changed_at"]
            )
            for name, row in found.items()
            if name.startswith(KEY)
        },
        conversation_days=_decoded(found, RETENTION, int) or CONVERSATION_DAYS,
        recipients=_decoded(found, RECIPIENTS, tuple[str, ...]) or (),
        mail=_decoded(found, MAIL, MailServer),
        mail_password=mail["sealed"] if mail else None,
        alert_url=webhook["value"] if webhook else None,
        alert_secret=webhook["sealed"] if webhook else None,
    )


def opened_keys(settings: PanelSettings, seal: Seal) -> Mapping[str, str | None]:
    """Open the providers' keys; None stands for one that does not open (it was sealed under another secret)."""
    return {provider: _opened(provider, kept, seal) for provider, kept in settings.keys.items()}


def _opened(provider: str, kept: KeptKey, seal: Seal) -> str | None:
    try:
        return seal.open(key_purpose(provider), kept.sealed)
    except SealBrokenError:
        return None


def _decoded(rows: Mapping[str, RowMapping], name: str, kind: type[Value]) -> Value | None:
    """A setting's value; one that can't be read is as good as not set, and said in the log."""
    row = rows.get(name)
    return None if row is None else _read(row, kind)


def _read(row: RowMapping, kind: type[Value]) -> Value | None:
    try:
        return msgspec.json.decode(row["value"] or "", type=kind)
    except msgspec.DecodeError as error:
        log.warning("the setting %s can't be read: %s", row["name"], error)
        return None


def _same_login(known: MailServer | None, server: MailServer) -> bool:
    """Whether a password that was given for one server goes to the same one, no less protected."""
    return known is not None and msgspec.structs.replace(known, sender=server.sender) == server


async def _row(connection: AsyncConnection, name: str) -> RowMapping | None:
    table = schema.operator_settings
    return (await connection.execute(select(table).where(table.c.name == name))).mappings().one_or_none()


async def _record(
    connection: AsyncConnection,
    name: str,
    before: RowMapping | None,
    after: RowMapping | None,
    *,
    by: Operator,
    at: datetime,
) -> None:
    """Audit a change; of secrets it says that there is one, and that it is another one now."""
    fresh = before is not None and after is not None and before["sealed"] != after["sealed"]
    action = "settings.set" if after is not None else "settings.remove"
    await record_change(
        connection, by, at, action, name, before=_told(before), after=_told(after, fresh=fresh)
    )


def _told(row: RowMapping | None, *, fresh: bool = False) -> _Told | None:
    if row is None:
        return None
    secret = "" if row["sealed"] is None else "new" if fresh else "set"
    return _Told(row["value"] or "", secret)
