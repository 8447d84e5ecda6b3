"""The relational side: opened for commands and workers, migrated and filled at the first start, checked before serving."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from gateway.bootstrap.data_folder import (
    LOCK_FILE,
    OneAtATime,
    StartError,
    data_id,
    generated_secret,
    make_folder,
)
from gateway.domain.catalog import Recipe
from gateway.domain.clock import Clock, file_clock, system_clock
from gateway.domain.errors import StoreAwayError
from gateway.domain.secrets import secret_fingerprint
from gateway.recipe_files import RecipeFileError, default_folder, read_recipes
from gateway.settings import Settings
from gateway.storage.calls import Calls
from gateway.storage.catalog import Catalog
from gateway.storage.conversations import Conversations
from gateway.storage.database import Database
from gateway.storage.first_start import first_owner, first_start, install
from gateway.storage.migrate import NewerSchemaError, SchemaState, schema_state
from gateway.storage.migrate import migrate as migrate_schema
from gateway.storage.nodes import Nodes
from gateway.storage.outages import MissingSchemaError
from gateway.storage.tenants import Tenants

LIVE_SECONDS = 15.0
DEFAULT_ADDRESS = "http://127.0.0.1:8080"

log = logging.getLogger(__name__)


class Stores(msgspec.Struct, frozen=True, kw_only=True):
    """The relational side: what commands work on."""

    settings: Settings
    secret: bytes
    database: Database
    tenants: Tenants
    catalog: Catalog
    calls: Calls
    conversations: Conversations
    nodes: Nodes
    recipes: dict[str, Recipe]
    now: Clock


def clock_of(settings: Settings) -> Clock:
    """The clock of the business rules."""
    return file_clock(settings.clock_file) if settings.clock_file else system_clock


def recipes_folder(settings: Settings) -> Path:
    """Where the recipe files are."""
    return settings.recipes or default_folder()


def make_stores(settings: Settings) -> Stores:
    """Put the relational side together; nothing is connected yet.

    Raises:
        StartError: The data folder, the secret or a recipe file is unusable.

    """
    make_folder(settings.data)
    try:
        recipes = read_recipes(recipes_folder(settings))
    except RecipeFileError as error:
        raise StartError(f"{error} (pepper recipe check)") from None
    database = Database.open(settings)
    return Stores(
        settings=settings,
        secret=settings.secret or generated_secret(settings.data),
        database=database,
        tenants=Tenants(database),
        catalog=Catalog(database),
        calls=Calls(database),
        conversations=Conversations(database),
        nodes=Nodes(database),
        recipes=recipes,
        now=clock_of(settings),
    )


@asynccontextmanager
async def open_stores(settings: Settings, notice: Callable[[str], None]) -> AsyncIterator[Stores]:
    """Open the stores for a command: an empty embedded store first gets what the first start gives it.

    Args:
        notice: Shown once for ever: the demo project's key, the panel owner's link.

    Raises:
        StartError: Something is unusable, or the database was made with another secret.
        StoreAwayError: The database does not answer, or `pepper migrate` has not been run on it.

    """
    stores = make_stores(settings)
    try:
        if settings.embedded_database:
            await migrate(stores, notice)
        else:
            await install(stores.database, stores.now())
        await check_secret(stores)
        yield stores
    finally:
        await stores.calls.close()
        await stores.database.close()


async def migrate_stores(settings: Settings, notice: Callable[[str], None]) -> None:
    """Create or upgrade the schema of any store, and install what is missing.

    Raises:
        StartError: Something is unusable, or the database was made with another secret.
        StoreAwayError: The database does not answer.

    """
    stores = make_stores(settings)
    try:
        await migrate(stores, notice)
        await check_secret(stores)
    finally:
        await stores.calls.close()
        await stores.database.close()


async def migrate(stores: Stores, notice: Callable[[str], None], base: str = DEFAULT_ADDRESS) -> None:
    """Schema, brains, built-in project; on the embedded default also the demo project and the panel's first owner.

    Args:
        base: Where the panel will be, for the owner's link.

    """
    with OneAtATime(stores.settings.data / LOCK_FILE):
        try:
            await migrate_schema(stores.database)
        except NewerSchemaError as error:
            raise StartError(f"the database belongs to a later release: {error}") from None
        now = stores.now()
        await install(stores.database, now)
        if stores.settings.embedded_database:
            await check_secret(stores)
            key = await first_start(stores.database, stores.secret, now)
            if key is not None:
                notice(f"Demo project created. Its key, shown only now: {key}")
            token = await first_owner(stores.database, now)
            if token is not None:
                notice(
                    "Panel owner created. Choose their password here, once, within 24 hours: "
                    f"{base}/panel/set-up/{token}"
                )


async def check_secret(stores: Stores) -> None:
    """Refuse a secret that is not the one the database knows.

    Raises:
        StartError: It is another: valid keys would be answered 401.

    """
    if not await stores.nodes.claim_secret(secret_fingerprint(stores.secret)):
        raise StartError(
            "PEPPER_SECRET: the database was set up with another secret; valid keys would be refused"
        )


async def check_nodes(stores: Stores) -> None:
    """Refuse to serve beside a live node that counts in another key-value store; warn beside one with another index.

    Raises:
        StartError: There is one.

    """
    mine = key_value_name(stores.settings)
    nodes = await stores.nodes.live_nodes(LIVE_SECONDS)
    for node in nodes:
        if node.key_value != mine and (
            node.key_value.startswith("embedded:") or mine.startswith("embedded:")
        ):
            raise StartError(
                "PEPPER_REDIS_URL: this node and another live one would count in different key-value stores, one of them "
                "embedded; limits would double"
            )
    others = {node.data_id for node in nodes} - {data_id(stores.settings.data)}
    if stores.settings.vector_url is None and others:
        log.warning(
            "PEPPER_VECTOR_URL: this node's vector index is embedded in its data folder, and other live nodes have "
            "another: what one of them is given to know, the others don't find"
        )


async def prepare_to_serve(
    settings: Settings, notice: Callable[[str], None], base: str = DEFAULT_ADDRESS
) -> None:
    """Check, once before the workers start, what should stop a start; a store that is away does not.

    Args:
        base: The address served, for the first owner's link.

    Raises:
        StartError: Another secret, a second node with a key-value store of its own, no schema.

    """
    stores = make_stores(settings)
    try:
        if settings.embedded_database:
            await migrate(stores, notice, base)
        elif await schema_state(stores.database) is not SchemaState.CURRENT:
            raise StartError("PEPPER_DATABASE_URL: the tables are not this release's: run `pepper migrate`")
        await check_secret(stores)
        await check_nodes(stores)
    except MissingSchemaError as error:
        raise StartError(f"PEPPER_DATABASE_URL: {error}") from None
    except StoreAwayError as error:
        if settings.embedded_database:
            raise StartError(f"PEPPER_DATA: the embedded store can't be used: {error}") from None
        log.warning("starting while the database is away: %s", error)
    finally:
        await stores.calls.close()
        await stores.database.close()


def key_value_name(settings: Settings) -> str:
    """Which key-value store this node counts in: the same name means the same counters."""
    if settings.redis_url is None:
        return f"embedded:{data_id(settings.data)}"
    parts = urlsplit(settings.redis_url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or 6379}{parts.path.rstrip('/') or '/0'}"
