"""The only place that picks implementations: from settings to stores, to a gate, to a core."""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from gateway.attachments.read import Attachments
from gateway.chain.admit import Admitting
from gateway.chain.answer import Chain
from gateway.chain.authenticate import Authenticator
from gateway.chain.budget import BudgetJudge
from gateway.chain.current import Current
from gateway.chain.leases import Leases
from gateway.chain.ledger import Ledger
from gateway.chain.memory import Memory
from gateway.chain.plan import Planner
from gateway.chain.record import Recording
from gateway.chain.upkeep import Upkeep
from gateway.core import Core
from gateway.domain.catalog import Recipe
from gateway.domain.clock import Clock, file_clock, system_clock
from gateway.domain.errors import StoreAwayError
from gateway.domain.secrets import secret_fingerprint
from gateway.ports import Gate, Provider
from gateway.recipe_files import RecipeFileError, default_folder, read_recipes
from gateway.settings import MINIMUM_SECRET_BYTES, Settings
from gateway.storage.calls import Calls
from gateway.storage.catalog import Catalog
from gateway.storage.conversations import Conversations
from gateway.storage.database import Database
from gateway.storage.first_start import first_start, install
from gateway.storage.migrate import NewerSchemaError, SchemaState, schema_state
from gateway.storage.migrate import migrate as migrate_schema
from gateway.storage.nodes import Node, Nodes
from gateway.storage.outages import MissingSchemaError
from gateway.storage.spool import Spool
from gateway.storage.tenants import Tenants

SECRET_FILE = "secret"  # noqa: S105 - a file's name
NODE_FILE = "node"
LOCK_FILE = "start.lock"
LIVE_SECONDS = 15.0
OWNER_ONLY = 0o600

log = logging.getLogger(__name__)


class StartError(Exception):
    """Why the gateway, or a command, cannot start: one line for the operator."""


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
        notice: Shown once for ever: the demo project's key.

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


async def migrate(stores: Stores, notice: Callable[[str], None]) -> None:
    """Schema, brains, built-in project; on the embedded default also the demo project."""
    with _one_at_a_time(stores.settings.data / LOCK_FILE):
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
    """Refuse to serve beside a live node that counts in another key-value store.

    Raises:
        StartError: There is one.

    """
    mine = key_value_name(stores.settings)
    for node in await stores.nodes.live_nodes(LIVE_SECONDS):
        if node.key_value != mine and (
            node.key_value.startswith("embedded:") or mine.startswith("embedded:")
        ):
            raise StartError(
                "PEPPER_REDIS_URL: another live node uses an embedded key-value store of its own; limits would double"
            )


def open_gate(settings: Settings) -> Gate:
    """The key-value store; nothing is connected yet."""
    if settings.redis_url is not None:
        from gateway.keyvalue.redis import RedisGate  # noqa: PLC0415 - only one of the two is ever needed

        return RedisGate(settings.redis_url)
    from gateway.keyvalue.sqlite import SqliteGate  # noqa: PLC0415

    return SqliteGate(settings.data)


def build(settings: Settings) -> Core:
    """Put a serving process together; nothing is connected or started yet.

    Raises:
        StartError: The data folder, the secret or a recipe file is unusable.

    """
    from gateway.providers.claude import Claude  # noqa: PLC0415 - commands need no provider
    from gateway.providers.openai import OpenAI  # noqa: PLC0415
    from gateway.providers.sandbox import Sandbox  # noqa: PLC0415
    from gateway.providers.transport import Transport  # noqa: PLC0415

    stores = make_stores(settings)
    gate = open_gate(settings)
    transport = Transport()
    claude = Claude(transport, settings.anthropic_key, settings.anthropic_url)
    openai = OpenAI(transport, settings.openai_key, settings.openai_url)
    providers: dict[str, Provider] = {one.name: one for one in (claude, openai, Sandbox())}
    judge = BudgetJudge(stores.nodes)

    async def objection() -> str | None:
        try:
            await check_secret(stores)
        except StartError as error:
            return str(error)
        return None

    current = Current(stores.database, stores.recipes, objection)
    ledger = Ledger(stores.calls, Spool(settings.data))
    leases = Leases(gate, stores.calls, judge)
    authenticator = Authenticator(stores.secret, current, stores.tenants, stores.now)
    memory = Memory(stores.conversations)
    attachments = Attachments()
    recording = Recording(ledger, leases, stores.now)
    node = Node(
        id=secrets.token_hex(8),
        data_id=data_id(settings.data),
        key_value=key_value_name(settings),
        host=socket.gethostname()[:64],
        pid=os.getpid(),
        started_at=system_clock(),
    )

    async def installed() -> None:
        try:
            await install(stores.database, stores.now())
            await stores.nodes.register(node)
        except StoreAwayError as error:
            log.warning("starting without the database: %s", error)

    return Core(
        chain=Chain(
            current=current,
            authenticator=authenticator,
            planner=Planner(memory, attachments, settings.timezone),
            admitting=Admitting(gate, stores.calls, judge, leases, zone=settings.timezone, now=stores.now),
            recording=recording,
            providers=providers,
            calls=stores.calls,
            conversations=stores.conversations,
            zone=settings.timezone,
            now=stores.now,
        ),
        current=current,
        recording=recording,
        ledger=ledger,
        upkeep=Upkeep(
            current=current,
            judge=judge,
            leases=leases,
            ledger=ledger,
            authenticator=authenticator,
            memory=memory,
            gate=gate,
            calls=stores.calls,
            nodes=stores.nodes,
            tenants=stores.tenants,
            node=node,
            now=stores.now,
        ),
        database=stores.database,
        gate=gate,
        openers=(transport.open, installed),
        warmers=(claude.warm, openai.warm),
        closers=(attachments.aclose, gate.close, stores.calls.close, stores.database.close, transport.aclose),
        drain_seconds=settings.drain_seconds,
    )


async def prepare_to_serve(settings: Settings, notice: Callable[[str], None]) -> None:
    """Check, once before the workers start, what should stop a start; a store that is away does not.

    Raises:
        StartError: Another secret, a second node with a key-value store of its own, no schema.

    """
    stores = make_stores(settings)
    try:
        if settings.embedded_database:
            await migrate(stores, notice)
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


def make_folder(folder: Path) -> None:
    """Make the data folder.

    Raises:
        StartError: It cannot be made or written.

    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(f"PEPPER_DATA: the folder {folder} can't be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StartError(f"PEPPER_DATA: the folder {folder} can't be written")


def generated_secret(folder: Path) -> bytes:
    """The secret of a data folder, made at its first use and readable by its owner alone."""
    text = _once(folder / SECRET_FILE, secrets.token_urlsafe(MINIMUM_SECRET_BYTES * 2))
    if len(text) < MINIMUM_SECRET_BYTES:
        raise StartError(f"PEPPER_DATA: {folder / SECRET_FILE} is damaged: restore it, or set PEPPER_SECRET")
    return text.encode()


def data_id(folder: Path) -> str:
    """The name of a data folder, made at its first use."""
    return _once(folder / NODE_FILE, secrets.token_hex(8))


def key_value_name(settings: Settings) -> str:
    """Which key-value store this node counts in: the same name means the same counters."""
    if settings.redis_url is None:
        return f"embedded:{data_id(settings.data)}"
    parts = urlsplit(settings.redis_url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or 6379}{parts.path.rstrip('/') or '/0'}"


def _once(path: Path, fresh: str) -> str:
    """A file's text; if there is none yet it is `fresh`, whoever of several processes is first."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        if not path.exists():
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
            with os.fdopen(descriptor, "w") as file:
                file.write(fresh)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was first
                os.link(temporary, path)
            temporary.unlink()
        return path.read_text().strip()
    except OSError as error:
        raise StartError(f"PEPPER_DATA: {path} can't be used: {error.strerror}") from None


class _one_at_a_time:  # noqa: N801 - reads as the verb it is
    """A lock between processes: two first starts at once make one demo project."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY)

    def __enter__(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
