"""A serving process: every part picked and put together."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from functools import partial

from gateway.attachments.read import Attachments
from gateway.bootstrap.alerts import make_alerting
from gateway.bootstrap.data_folder import StartError, data_id
from gateway.bootstrap.dilem import make_dilem, upkeep_of
from gateway.bootstrap.gates import open_gate
from gateway.bootstrap.knowledge import make_knowledge, make_library
from gateway.bootstrap.notices import make_courier, make_notifying
from gateway.bootstrap.offices import make_office
from gateway.bootstrap.provider_keys import ProviderKeys
from gateway.bootstrap.stores import check_secret, key_value_name, make_stores
from gateway.chain.admit import Admitting
from gateway.chain.alerting import WORK_SECONDS
from gateway.chain.answer import Chain
from gateway.chain.authenticate import Authenticator
from gateway.chain.batch import Deferred
from gateway.chain.batch_closing import Closing
from gateway.chain.budget import BudgetJudge
from gateway.chain.current import Current
from gateway.chain.endings import Endings
from gateway.chain.leases import Leases
from gateway.chain.ledger import Ledger
from gateway.chain.memory import Memory
from gateway.chain.plan import Planner
from gateway.chain.reading import Reading
from gateway.chain.record import Recording
from gateway.chain.upkeep import RETENTION_SECONDS, Upkeep
from gateway.collector import keep_what_is_loaded
from gateway.core import Core
from gateway.dilem.rehearsal import stand_ins
from gateway.domain.clock import system_clock
from gateway.domain.errors import StoreAwayError
from gateway.ports import BatchProvider, Provider
from gateway.providers.claude import Claude
from gateway.providers.openai import OpenAI
from gateway.providers.sandbox import Sandbox
from gateway.providers.transport import Transport
from gateway.settings import Settings
from gateway.storage.batches import Batches
from gateway.storage.first_start import install
from gateway.storage.nodes import Node
from gateway.storage.sealing import Seal
from gateway.storage.spool import Spool

log = logging.getLogger(__name__)


def build(settings: Settings, address: str | None = None) -> Core:
    """Put a serving process together; nothing is connected or started yet.

    Args:
        settings: The environment.
        address: Where the server listens, such as `http://127.0.0.1:8080`.

    Raises:
        StartError: The data folder, the secret or a recipe file is unusable.

    """
    stores = make_stores(settings)
    gate = open_gate(settings)
    transport = Transport()
    claude = Claude(transport, settings.anthropic_key, settings.anthropic_url)
    openai = OpenAI(transport, settings.openai_key, settings.openai_url)
    sandbox = Sandbox(settings.data / "prova", stand_ins())
    providers: dict[str, Provider] = {one.name: one for one in (claude, openai, sandbox)}
    judge = BudgetJudge(stores.nodes)
    seal = Seal(stores.secret)
    keys = ProviderKeys(settings, seal, claude, openai)

    async def objection() -> str | None:
        try:
            await check_secret(stores)
        except StartError as error:
            return str(error)
        return None

    current = Current(stores.database, stores.recipes, objection, keys.adopt)
    ledger = Ledger(stores.calls, Spool(settings.data), current.lost)
    leases = Leases(gate, stores.calls, judge)
    authenticator = Authenticator(stores.secret, current, stores.tenants, stores.now)
    memory = Memory(stores.conversations, current)
    attachments = Attachments()
    endings = Endings(ledger, leases)
    recording = Recording(endings, stores.now)
    knowledge = make_knowledge(stores, openai)
    planner = Planner(memory, attachments, knowledge.consulting, settings.timezone)
    admitting = Admitting(gate, stores.calls, judge, leases, zone=settings.timezone, now=stores.now)
    library = make_library(
        stores, knowledge, current=current, admitting=admitting, ledger=ledger, leases=leases, gate=gate
    )
    batches = Batches(stores.database)
    batch_providers: dict[str, BatchProvider] = {one.name: one for one in (claude, openai, sandbox)}
    closing = Closing(
        current=current,
        leases=leases,
        gate=gate,
        batches=batches,
        providers=batch_providers,
        now=stores.now,
    )
    deferred = Deferred(
        current=current,
        planner=planner,
        admitting=admitting,
        leases=leases,
        closing=closing,
        batches=batches,
        providers=batch_providers,
        now=stores.now,
    )
    node = Node(
        id=secrets.token_hex(8),
        data_id=data_id(settings.data),
        key_value=key_value_name(settings),
        host=socket.gethostname()[:64],
        pid=os.getpid(),
        started_at=system_clock(),
    )

    courier = make_courier(stores)
    notifying = make_notifying(
        stores, courier, current=current, closing=closing, batches=batches, holder=node.id
    )

    async def installed() -> None:
        try:
            await install(stores.database, stores.now())
            await stores.nodes.register(node)
        except StoreAwayError as error:
            log.warning("starting without the database: %s", error)

    chain = Chain(
        current=current,
        authenticator=authenticator,
        planner=planner,
        admitting=admitting,
        recording=recording,
        providers=providers,
        calls=stores.calls,
        conversations=stores.conversations,
        deferred=deferred,
        consulting=knowledge.consulting,
        library=library,
        zone=settings.timezone,
        now=stores.now,
    )
    alerting = make_alerting(stores, courier, current=current, circuits=chain.circuits, holder=node.id)
    dilem = make_dilem(stores, chain, address)
    return Core(
        chain=chain,
        dilem=dilem,
        office=make_office(
            stores,
            knowledge=knowledge,
            library=library,
            reading=Reading(
                current=current,
                admitting=admitting,
                ledger=ledger,
                leases=leases,
                zone=settings.timezone,
                now=stores.now,
            ),
            gate=gate,
            alerting=alerting,
        ),
        current=current,
        recording=recording,
        endings=endings,
        ledger=ledger,
        upkeep=Upkeep(
            current=current,
            judge=judge,
            leases=leases,
            ledger=ledger,
            authenticator=authenticator,
            memory=memory,
            closing=closing,
            notifying=notifying,
            library=library,
            gate=gate,
            calls=stores.calls,
            nodes=stores.nodes,
            tenants=stores.tenants,
            node=node,
            now=stores.now,
            more=(
                (alerting.work, WORK_SECONDS),
                (alerting.forget_old, RETENTION_SECONDS),
                *(() if dilem is None else upkeep_of(dilem)),
            ),
        ),
        database=stores.database,
        gate=gate,
        index=knowledge.index,
        library=library,
        openers=(transport.open, installed),
        warmers=(partial(keys.keep_warm, keep_what_is_loaded),),
        closers=(
            alerting.stop,
            *knowledge.closers,
            attachments.aclose,
            courier.aclose,
            gate.close,
            stores.calls.close,
            stores.database.close,
            transport.aclose,
        ),
        zone=settings.timezone,
        drain_seconds=settings.drain_seconds,
        metrics_token=settings.metrics_token,
    )
