"""The whole examination: what the machine shows, then what the database says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.bootstrap.data_folder import StartError
from gateway.bootstrap.stores import open_stores
from gateway.cli.doctor.configuration import configuration_problems
from gateway.cli.doctor.knowledge import knowledge_problems
from gateway.cli.doctor.machine import (
    clock_problems,
    folder_problems,
    index_problems,
    key_value_problems,
    recipe_problems,
)
from gateway.cli.doctor.problem import Problem
from gateway.cli.shared import notice
from gateway.domain.errors import StoreAwayError
from gateway.storage.configuration import read_configuration
from gateway.storage.migrate import NewerSchemaError, SchemaState, schema_state
from gateway.storage.outages import MissingSchemaError
from gateway.storage.sealing import Seal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.settings import Settings

_REMEDIES = {
    "PEPPER_SECRET": "rimettere il segreto con cui il database è stato creato (variabile, o file secret della cartella dei dati)",
    "PEPPER_DATA": "dare all'utente di Pepper una cartella in cui può scrivere, e nominarla in PEPPER_DATA",
}
"""What mends a start that is refused because of a variable."""
_ANY_REMEDY = "correggere quello che dice la riga"


async def examine(settings: Settings) -> Sequence[Problem]:
    """Find every problem. An empty embedded store first gets what the first start gives it, as with any command."""
    recipes = list(recipe_problems(settings))
    # Wrong recipe files must not hide what is wrong with the stores.
    readable = msgspec.structs.replace(settings, recipes=None) if recipes and settings.recipes else settings
    stores = await _store_problems(readable, recipes_read=not recipes)
    return (
        *clock_problems(settings),
        *recipes,
        *stores,
        *await key_value_problems(settings),
        *await index_problems(settings),
        *folder_problems(settings),
    )


async def _store_problems(settings: Settings, *, recipes_read: bool) -> Sequence[Problem]:
    try:
        async with open_stores(settings, notice) as stores:
            if await schema_state(stores.database) is not SchemaState.CURRENT:
                return (Problem("le tabelle del database sono di un'altra versione", "pepper migrate"),)
            rows = await read_configuration(stores.database)
            return (
                *configuration_problems(
                    settings, rows, stores.recipes if recipes_read else None, Seal(stores.secret)
                ),
                *await knowledge_problems(stores, rows),
            )
    except StartError as error:
        variable = str(error).partition(":")[0]
        return (Problem(f"pepper serve non può partire: {error}", _REMEDIES.get(variable, _ANY_REMEDY)),)
    except MissingSchemaError as error:
        return (Problem(f"le tabelle del database mancano o sono vecchie: {error}", "pepper migrate"),)
    except NewerSchemaError as error:
        return (
            Problem(
                f"il database è di una versione più nuova: {error}", "aggiornare Pepper su questa macchina"
            ),
        )
    except StoreAwayError as error:
        return (
            Problem(
                f"il database non risponde: {error}",
                "accenderlo, oppure correggere PEPPER_DATABASE_URL"
                if settings.database_url
                else f"controllare permessi e spazio di {settings.data}",
            ),
        )
