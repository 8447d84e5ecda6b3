"""What can be seen without the database: the data folder, the clock's file, the recipe files, the key-value store."""

from __future__ import annotations

import asyncio
import binascii
import hashlib
import itertools
import stat
from datetime import datetime
from typing import TYPE_CHECKING

from gateway.bootstrap.data_folder import SECRET_FILE
from gateway.bootstrap.gates import open_gate
from gateway.bootstrap.indexes import open_index
from gateway.bootstrap.stores import recipes_folder
from gateway.cli.doctor.problem import Problem
from gateway.domain.errors import StoreAwayError
from gateway.keyvalue.redis.link import CLUSTER_SCHEME, open_link
from gateway.keyvalue.redis.scripts import Call, Script
from gateway.recipe_files import check_recipes
from gateway.storage.spool import Spool
from gateway.vectors.sqlite.file import FILE_NAME as INDEX_FILE
from gateway.vectors.sqlite.file import damage_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gateway.settings import Settings

FOR_OTHERS = 0o077
"""Permissions of anybody but the owner."""
UNREADABLE_SPOOL = "spool-unreadable.jsonl"

_TOLD = "return redis.call('INFO', 'persistence') .. redis.call('INFO', 'memory')"
_INFO = Script(_TOLD, hashlib.sha1(_TOLD.encode(), usedforsecurity=False).hexdigest())
_WANTED = {
    "aof_enabled": ("1", "appendonly yes"),
    "maxmemory_policy": ("noeviction", "maxmemory-policy noeviction"),
}
"""Lines of Redis's INFO: what must stand there, and the setting it comes from."""
_SLOTS = 16_384
_CLUSTER_QUESTIONS = 64
"""Slots asked in a cluster, evenly spread: a node that holds more than a 64th of them in a row is not passed over."""
_AT_ONCE = 8


def folder_problems(settings: Settings) -> Iterator[Problem]:
    """Look at what stands in the data folder."""
    secret = settings.data / SECRET_FILE
    if settings.secret is None and secret.exists() and stat.S_IMODE(secret.stat().st_mode) & FOR_OTHERS:
        yield Problem(f"il segreto in {secret} può essere letto da altri utenti", f"chmod 600 {secret}")
    if Spool(settings.data).pending:
        yield Problem(
            f"in {settings.data} ci sono righe del registro che non sono ancora nel database",
            "tenere acceso pepper serve con questa cartella: le importa da solo quando il database risponde",
        )
    unreadable = settings.data / UNREADABLE_SPOOL
    if unreadable.exists():
        yield Problem(
            f"{unreadable} contiene righe del registro che non si leggono",
            "esaminarle e spostare altrove il file",
        )


def clock_problems(settings: Settings) -> Iterator[Problem]:
    """Look at the file that tells the time."""
    if settings.clock_file is None:
        return
    try:
        datetime.fromisoformat(settings.clock_file.read_text().strip())
    except (OSError, ValueError):
        yield Problem(
            f"PEPPER_CLOCK_FILE: in {settings.clock_file} non c'è un istante, e vale l'ora della macchina",
            "scriverci un istante ISO 8601 in UTC, oppure togliere la variabile (serve solo alle prove)",
        )


def recipe_problems(settings: Settings) -> Iterator[Problem]:
    """Read every recipe file."""
    for error in check_recipes(recipes_folder(settings)):
        yield Problem(f"ricetta {error}", f"correggere {error.file}; pepper recipe check la rilegge")


async def key_value_problems(settings: Settings) -> tuple[Problem, ...]:
    """Ask the key-value store whether it is there and keeps what it is told."""
    if settings.redis_url is not None:
        return await _redis_problems(settings.redis_url)
    if not settings.data.is_dir():
        return ()  # what keeps it from being made is told with the database
    gate = open_gate(settings)
    try:
        await gate.ping()
    except StoreAwayError as error:
        return (
            Problem(
                f"il deposito chiave-valore in {settings.data} non si può usare: {error}",
                "controllare permessi e spazio della cartella",
            ),
        )
    finally:
        await gate.close()
    return ()


async def index_problems(settings: Settings) -> tuple[Problem, ...]:
    """Ask the vector index whether it is there, and look through the embedded one's file."""
    if settings.vector_url is None and not settings.data.is_dir():
        return ()  # what keeps it from being made is told with the database
    index = open_index(settings)
    try:
        await index.ping()
        damage = None if settings.vector_url else await asyncio.to_thread(damage_of, settings.data)
    except StoreAwayError as error:
        return (
            Problem(
                f"l'indice della conoscenza non risponde: {error}",
                "accendere PostgreSQL, oppure correggere PEPPER_VECTOR_URL"
                if settings.vector_url
                else f"controllare permessi e spazio di {settings.data}",
            ),
        )
    finally:
        await index.close()
    if damage is None:
        return ()
    return (
        Problem(
            f"l'indice della conoscenza in {settings.data} è rovinato: {damage}",
            f"fermare Pepper, spostare altrove {settings.data / INDEX_FILE}, poi pepper knowledge reindex per ogni progetto",
        ),
    )


async def _redis_problems(url: str) -> tuple[Problem, ...]:
    questions = [
        Call(_INFO, (key,), ()) for key in _keys(_CLUSTER_QUESTIONS if url.startswith(CLUSTER_SCHEME) else 1)
    ]
    link = open_link(url)
    told: list[bytes] = []
    try:
        for start in range(0, len(questions), _AT_ONCE):
            told.extend(await link.run(questions[start : start + _AT_ONCE]))
    except StoreAwayError as error:
        return (
            Problem(
                f"Redis non risponde come deve: {error}",
                "accenderlo, oppure correggere PEPPER_REDIS_URL (indirizzo, password, permessi)",
            ),
        )
    finally:
        await link.close()
    nodes = [dict(line.partition(":")[::2] for line in text.decode().splitlines()) for text in told]
    return tuple(
        Problem(
            f"Redis perde dati: {name} è {_found(nodes, name, value)}",
            f"mettere {setting} nella sua configurazione",
        )
        for name, (value, setting) in _WANTED.items()
        if any(node.get(name) != value for node in nodes)
    )


def _found(nodes: list[dict[str, str]], name: str, wanted: str) -> str:
    return next(node.get(name, "?") for node in nodes if node.get(name) != wanted)


def _keys(count: int) -> Iterable[str]:
    """Give keys whose slots are evenly spread over a cluster."""
    found: dict[int, str] = {}
    for number in itertools.count():
        if len(found) == count:
            break
        tag = f"doctor{number}"
        slot = binascii.crc_hqx(tag.encode(), 0) % _SLOTS
        found.setdefault(slot * count // _SLOTS, f"pepper:{{{tag}}}:nothing")
    return found.values()
