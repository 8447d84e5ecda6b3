"""`pepper price`: what the providers' models cost, in US dollars per million tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gateway.cli.shared import json_option, print_done, print_json, print_table, with_stores
from gateway.cli.values import Parsed
from gateway.domain.inputs import read_name, read_price
from gateway.domain.tenants import COMMAND_LINE
from gateway.domain.usage import Price, UnitPrice

if TYPE_CHECKING:
    from decimal import Decimal

    from gateway.bootstrap.stores import Stores
    from gateway.chain.pricing import PricedModel

OPERATOR = "operatore"
AMOUNT = Parsed("amount", read_price)


@click.group()
def price() -> None:
    """Prices of the providers' models."""


@price.command("set")
@click.argument("model", metavar="MODEL", type=Parsed("model", read_name))
@click.option(
    "--input", "input_", metavar="USD", type=AMOUNT, required=True, help="Per million tokens of input."
)
@click.option("--output", metavar="USD", type=AMOUNT, required=True, help="Per million tokens of output.")
@click.option(
    "--cache-read",
    metavar="USD",
    type=AMOUNT,
    help="Per million tokens read from the provider's cache; that of input unless given.",
)
@click.option(
    "--cache-write",
    metavar="USD",
    type=AMOUNT,
    help="Per million tokens written to the provider's cache; that of input unless given.",
)
@json_option
def set_(
    *,
    model: str,
    input_: Decimal,
    output: Decimal,
    cache_read: Decimal | None,
    cache_write: Decimal | None,
    as_json: bool,
) -> None:
    """Set what a model costs, in place of the bundled price."""
    unit = UnitPrice(
        input=input_,
        output=output,
        cache_read=input_ if cache_read is None else cache_read,
        cache_write=input_ if cache_write is None else cache_write,
    )

    async def work(stores: Stores) -> None:
        now = stores.now()
        day = now.astimezone(stores.settings.timezone).date()
        await stores.catalog.set_price(
            Price(model=model, tiers=(unit,), origin=OPERATOR, day=day), COMMAND_LINE, now
        )

    with_stores(work)
    print_done(f"price of {model} set", as_json=as_json)


@price.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List what each model in use, or priced by an operator, costs."""
    from gateway.chain.pricing import read_models  # noqa: PLC0415 - help must not wait for the database's library

    models = with_stores(lambda stores: read_models(stores.database, stores.recipes))
    if as_json:
        print_json([_told(one) for one in models])
    else:
        headings = (
            "MODEL",
            "INPUT",
            "OUTPUT",
            "CACHE READ",
            "CACHE WRITE",
            "ORIGIN",
            "DAY",
            "LONG INPUT",
            "USED BY",
        )
        print_table(headings, ((*_told(one).values(), _tiers(one), one.brains) for one in models))


def _told(one: PricedModel) -> dict[str, object]:
    unit = None if one.price is None else one.price.tiers[0]
    return {
        "modello": one.model,
        "input_usd": unit and float(unit.input),
        "output_usd": unit and float(unit.output),
        "cache_read_usd": unit and float(unit.cache_read),
        "cache_write_usd": unit and float(unit.cache_write),
        "origine": one.price and one.price.origin,
        "data": one.price and one.price.day.isoformat(),
    }


def _tiers(one: PricedModel) -> str:
    """Tell the prices of calls with a long input, which the columns leave out."""
    tiers = one.price.tiers[1:] if one.price else ()
    return "; ".join(
        f"over {tier.above_input_tokens} tokens {tier.input:f}/{tier.output:f}" for tier in tiers
    )
