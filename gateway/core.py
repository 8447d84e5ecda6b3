"""The assembled parts, and their common life: started together, drained and stopped in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from ipaddress import IPv4Network, IPv6Network
from zoneinfo import ZoneInfo

import msgspec

from gateway import metrics
from gateway.attachments.pdf_text import PdfTexts
from gateway.chain.alerting import Alerting
from gateway.chain.answer import Chain
from gateway.chain.current import Current
from gateway.chain.endings import Endings
from gateway.chain.ledger import Ledger
from gateway.chain.library import Library
from gateway.chain.looking import Looking
from gateway.chain.record import Recording
from gateway.chain.removal import Removal
from gateway.chain.upkeep import Upkeep
from gateway.dilem.service import Dilem
from gateway.domain.catalog import Recipe
from gateway.domain.clock import Clock
from gateway.domain.errors import StoreAwayError
from gateway.ports import Gate, VectorIndex
from gateway.storage.audit import Audit
from gateway.storage.calls import Calls
from gateway.storage.catalog import Catalog
from gateway.storage.database import Database
from gateway.storage.operator_settings import OperatorSettings
from gateway.storage.operators import Operators
from gateway.storage.panel_sessions import PanelSessions
from gateway.storage.reports import Reports
from gateway.storage.sealing import Seal
from gateway.storage.tenants import Tenants

READY_SECONDS = 3.0

log = logging.getLogger(__name__)


class Office(msgspec.Struct, frozen=True, kw_only=True):
    """What administrators work with in the panel: the configuration's stores, and who they are.

    Attributes:
        given_keys: Providers whose key is in the environment, which goes before the panel's.
        private_addresses: Notices and alerts may go to plain http and to this machine and its network.
        trusted_proxies: Networks whose forwarding headers are believed.
        recipes: The recipe files, by name.

    """

    database: Database
    tenants: Tenants
    catalog: Catalog
    calls: Calls
    reports: Reports
    audit: Audit
    operators: Operators
    sessions: PanelSessions
    settings: OperatorSettings
    alerting: Alerting
    removal: Removal
    library: Library
    looking: Looking
    pdf_texts: PdfTexts
    seal: Seal
    secret: bytes
    recipes: Mapping[str, Recipe]
    given_keys: frozenset[str]
    private_addresses: bool
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...]
    zone: ZoneInfo
    now: Clock


class Core(msgspec.Struct, kw_only=True):
    """Everything a front door needs, already put together.

    Attributes:
        openers: Awaited in turn at the start (the transport, the installation's rows).
        warmers: Started at the start and not waited for (what would make a first call slow).
        closers: Awaited in turn at the end.
        drain_seconds: How long calls in flight may go on after the server was asked to stop.

    """

    chain: Chain
    dilem: Dilem | None
    office: Office
    current: Current
    recording: Recording
    endings: Endings
    ledger: Ledger
    upkeep: Upkeep
    database: Database
    gate: Gate
    index: VectorIndex
    library: Library
    openers: tuple[Callable[[], Awaitable[None]], ...]
    warmers: tuple[Callable[[], Coroutine[None, None, None]], ...]
    closers: tuple[Callable[[], Awaitable[None]], ...]
    zone: ZoneInfo
    drain_seconds: float
    metrics_token: str | None = None
    started: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    draining: asyncio.Task[None] | None = None
    warming: tuple[asyncio.Task[None], ...] = ()

    async def start(self) -> None:
        """Begin to live; a store that is away does not prevent it."""
        for opened in self.openers:
            await opened()
        self.warming = tuple(asyncio.create_task(warm()) for warm in self.warmers)
        await self.upkeep.start()
        self.started.set()

    def drain(self) -> None:
        """The server goes down: calls that still run at the limit are cut, told and billed."""
        if self.draining is None:
            self.draining = asyncio.ensure_future(self._cut_later())

    async def stop(self) -> None:
        """Write down what ended, flush the ledger, let go of everything."""
        if self.draining is not None:
            self.draining.cancel()
        if self.dilem is not None:
            await self.dilem.stop()
        await self.endings.ended()
        await self.ledger.drained()
        await self.upkeep.stop()
        for task in self.warming:
            task.cancel()
        await asyncio.gather(*self.warming, return_exceptions=True)
        for close in self.closers:
            await close()

    async def ready(self) -> bool:
        """Whether every store answers, and the database is this installation's."""
        answers = await asyncio.gather(
            _answers("database", self.database.ping),
            _answers("key-value", self.gate.ping),
            _answers("vectors", self.index.ping),
        )
        return all(answers) and self.current.healthy

    async def _cut_later(self) -> None:
        await asyncio.sleep(self.drain_seconds)
        while True:
            self.recording.cut()
            self.library.cut()
            await asyncio.sleep(1)


async def _answers(store: str, ping: Callable[[], Awaitable[None]]) -> bool:
    """Whether a store answers in time; said in the log and the metrics."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await ping()
    except (StoreAwayError, TimeoutError) as error:
        log.warning("not ready: %s: %s", store, str(error) or "no answer in time")
        metrics.store_up.labels(store).set(0)
        return False
    metrics.store_up.labels(store).set(1)
    return True
