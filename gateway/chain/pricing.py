"""Which providers' models the Pepper models turn to, and what each costs, as the chain sees it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from gateway.chain.snapshot import Snapshot
from gateway.domain.catalog import Level
from gateway.domain.tenants import Project
from gateway.domain.usage import Price
from gateway.storage.configuration import read_configuration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.domain.catalog import Recipe
    from gateway.storage.configuration import ConfigurationRows
    from gateway.storage.database import Database

_ANYBODY = Project(name="", created_at=datetime.fromtimestamp(0, UTC))
"""A project that isn't a sandbox: its calls reach the providers."""


class PricedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's model.

    Attributes:
        brains: The Pepper models that turn to it, first or as their fallback; none if only its price is known.
        price: None when nobody knows it: the model can't be used.

    """

    model: str
    brains: tuple[str, ...]
    price: Price | None


async def read_models(database: Database, recipes: Mapping[str, Recipe]) -> Sequence[PricedModel]:
    """Read every model that a Pepper model turns to, then those that operators priced besides."""
    rows = await read_configuration(database)
    return models_of(rows, Snapshot(rows, recipes))


def models_of(rows: ConfigurationRows, snapshot: Snapshot) -> Sequence[PricedModel]:
    """Do the same for a configuration that has been read."""
    used: dict[tuple[str, str], dict[str, None]] = {}
    for brain in rows.brains:
        for level in Level:
            for target in snapshot.targets(_ANYBODY, brain, level):
                used.setdefault((target.provider, target.model), {})[brain.name] = None
    models = [
        PricedModel(model=model, brains=tuple(brains), price=snapshot.price(provider, model))
        for (provider, model), brains in used.items()
    ]
    others = rows.prices.keys() - {model for _, model in used}
    models.extend(PricedModel(model=model, brains=(), price=rows.prices[model]) for model in sorted(others))
    return models
