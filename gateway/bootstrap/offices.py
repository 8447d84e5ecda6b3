"""What the panel works with, put together from the stores."""

from __future__ import annotations

from gateway.bootstrap.stores import Stores
from gateway.core import Office
from gateway.storage.audit import Audit
from gateway.storage.operators import Operators
from gateway.storage.panel_sessions import PanelSessions
from gateway.storage.reports import Reports
from gateway.storage.sealing import Seal


def make_office(stores: Stores) -> Office:
    """Give the panel's parts; nothing is connected yet."""
    return Office(
        database=stores.database,
        tenants=stores.tenants,
        catalog=stores.catalog,
        calls=stores.calls,
        reports=Reports(stores.database),
        audit=Audit(stores.database),
        operators=Operators(stores.database),
        sessions=PanelSessions(stores.database, stores.secret),
        seal=Seal(stores.secret),
        secret=stores.secret,
        recipes=stores.recipes,
        trusted_proxies=stores.settings.trusted_proxies,
        zone=stores.settings.timezone,
        now=stores.now,
    )
