"""What the panel works with, put together from the stores and the parts that calls share."""

from __future__ import annotations

from gateway.attachments.pdf_text import PdfTexts
from gateway.bootstrap.knowledge import KnowledgeParts
from gateway.bootstrap.provider_keys import keys_of_environment
from gateway.bootstrap.stores import Stores
from gateway.chain.alerting import Alerting
from gateway.chain.library import Library
from gateway.chain.looking import Looking
from gateway.chain.reading import Reading
from gateway.chain.removal import Removal
from gateway.core import Office
from gateway.ports import Gate
from gateway.storage.audit import Audit
from gateway.storage.operator_settings import OperatorSettings
from gateway.storage.operators import Operators
from gateway.storage.panel_sessions import PanelSessions
from gateway.storage.reports import Reports
from gateway.storage.sealing import Seal


def make_office(
    stores: Stores,
    *,
    knowledge: KnowledgeParts,
    library: Library,
    reading: Reading,
    gate: Gate,
    alerting: Alerting,
) -> Office:
    """Give the panel's parts; nothing is connected yet."""
    seal = Seal(stores.secret)
    return Office(
        database=stores.database,
        tenants=stores.tenants,
        catalog=stores.catalog,
        calls=stores.calls,
        reports=Reports(stores.database),
        audit=Audit(stores.database),
        operators=Operators(stores.database),
        sessions=PanelSessions(stores.database, stores.secret),
        settings=OperatorSettings(stores.database, seal),
        alerting=alerting,
        removal=Removal(stores.tenants, stores.nodes, gate, knowledge.index, stores.now),
        library=library,
        looking=Looking(
            shelves=knowledge.shelves,
            embedders=knowledge.embedders,
            index=knowledge.index,
            reading=reading,
        ),
        pdf_texts=PdfTexts(),
        seal=seal,
        secret=stores.secret,
        recipes=stores.recipes,
        given_keys=frozenset(name for name, key in keys_of_environment(stores.settings).items() if key),
        private_addresses=stores.settings.webhook_private,
        trusted_proxies=stores.settings.trusted_proxies,
        zone=stores.settings.timezone,
        now=stores.now,
    )
