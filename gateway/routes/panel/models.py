"""Pepper models, who answers for them, and what the providers' models cost."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response, get, post

from gateway.chain.pricing import read_models
from gateway.core import Office
from gateway.domain.catalog import Brain, Reasoning
from gateway.domain.inputs import read_fallback, read_name, read_price, read_text
from gateway.domain.operators import Role
from gateway.domain.usage import Price, UnitPrice
from gateway.routes.panel.forms import Form, read_form
from gateway.routes.panel.pages import Pages, go
from gateway.routes.panel.visitors import visitor_of
from gateway.storage.catalog_rows import OPERATOR_PRICE
from gateway.storage.changes import BrainChanges, changed
from gateway.storage.refusals import DuplicateError, RefusalError, UnknownError

MODELS = "/panel/models"
PROVIDERS = ("claude", "openai")

AnyRequest = Request[Any, Any, Any]
Value = TypeVar("Value")


class BrainForm(msgspec.Struct, frozen=True, kw_only=True):
    """What a form says of a Pepper model, as typed; and which of its fields are wrong."""

    name: str = ""
    provider: str = PROVIDERS[0]
    principal: str = ""
    economy: str = ""
    reasoning: str = Reasoning.OFF.value
    fallback: str = "none"
    description: str = ""
    news: str = ""
    voice: bool = False
    wrong: tuple[str, ...] = ()


class PriceForm(msgspec.Struct, frozen=True, kw_only=True):
    """What a form says of a model's price, as typed; and which of its fields are wrong."""

    model: str = ""
    input: str = ""
    output: str = ""
    cache_read: str = ""
    cache_write: str = ""
    wrong: tuple[str, ...] = ()


NO_BRAIN = BrainForm()
NO_PRICE = PriceForm()


def model_routes(office: Office, pages: Pages) -> list[Any]:
    """The routes."""
    desk = _Desk(office, pages)
    return [*_brains(office, pages, desk), *_prices(office, pages, desk)]


class _Desk:
    """The page, as it is shown after whatever was done."""

    def __init__(self, office: Office, pages: Pages) -> None:
        self._office = office
        self._pages = pages

    async def show(
        self,
        request: AnyRequest,
        form: BrainForm = NO_BRAIN,
        *,
        editing: str = "",
        price: PriceForm = NO_PRICE,
        error: str = "",
        status: int = 200,
    ) -> Response[bytes]:
        """Pepper models, prices, and the forms as they were typed."""
        context = {
            "brains": await self._office.catalog.list_brains(),
            "models": await read_models(self._office.database, self._office.recipes),
            "form": form,
            "price": price,
            "editing": editing,
            "providers": PROVIDERS,
            "reasonings": [one.value for one in Reasoning],
            "error": error,
        }
        return self._pages.page(request, "models.html", context, status=status)

    async def found(self, name: str) -> Brain:
        """A Pepper model. Raises `UnknownError`."""
        for brain in await self._office.catalog.list_brains():
            if brain.name == name:
                return brain
        raise UnknownError(f"there is no model {name!r}")


def _brains(office: Office, pages: Pages, desk: _Desk) -> list[Any]:
    @get("/models", opt={"role": Role.VIEWER})
    async def show_models(request: AnyRequest) -> Response[bytes]:
        name = request.query_params.get("edit", "")
        return await desk.show(request, told(await desk.found(name)) if name else NO_BRAIN, editing=name)

    @post("/models", opt={"role": Role.EDITOR})
    async def add_brain(request: AnyRequest) -> Response[bytes]:
        form, words = await read_form(request), pages.words(request)
        typed, changes = read_changes(form)
        if typed.wrong:
            return await desk.show(request, typed, error=words("models.wrong"), status=400)
        fresh = changed(Brain(name=read_name(typed.name), provider="", principal="", economy=""), changes)
        try:
            await office.catalog.add_brain(fresh, visitor_of(request).operator, office.now())
        except DuplicateError:
            return await desk.show(request, typed, error=words("models.taken"), status=409)
        except RefusalError:
            return await desk.show(request, typed, error=words("models.fallback_wrong"), status=400)
        return go(MODELS, done="saved")

    @post("/models/change", opt={"role": Role.EDITOR})
    async def change_brain(request: AnyRequest) -> Response[bytes]:
        form, words, by = await read_form(request), pages.words(request), visitor_of(request).operator
        name = (await desk.found(form.text("name"))).name
        if form.text("action") == "default":
            await office.catalog.set_default_brain(name, by, office.now())
            return go(MODELS, done="saved")
        typed, changes = read_changes(form)
        if typed.wrong:
            return await desk.show(request, typed, editing=name, error=words("models.wrong"), status=400)
        try:
            await office.catalog.set_brain(name, changes, by, office.now())
        except RefusalError:
            return await desk.show(
                request, typed, editing=name, error=words("models.fallback_wrong"), status=400
            )
        return go(MODELS, done="saved")

    return [show_models, add_brain, change_brain]


def _prices(office: Office, pages: Pages, desk: _Desk) -> list[Any]:
    @post("/models/price", opt={"role": Role.EDITOR})
    async def set_price(request: AnyRequest) -> Response[bytes]:
        form, words = await read_form(request), pages.words(request)
        typed, unit = read_unit_price(form)
        if unit is None:
            return await desk.show(request, price=typed, error=words("models.price_wrong"), status=400)
        day = office.now().astimezone(office.zone).date()
        price = Price(model=read_name(typed.model), tiers=(unit,), origin=OPERATOR_PRICE, day=day)
        await office.catalog.set_price(price, visitor_of(request).operator, office.now())
        return go(MODELS, done="saved")

    return [set_price]


def read_unit_price(form: Form) -> tuple[PriceForm, UnitPrice | None]:
    """Read a price's form: as typed with the names of wrong fields, and as a price if none is."""
    wrong: list[str] = []

    def amount(field: str, otherwise: Decimal | None = None) -> Decimal:
        text = form.text(field).replace(",", ".")
        if not text and otherwise is not None:
            return otherwise
        try:
            return read_price(text)
        except ValueError:
            wrong.append(field)
            return Decimal()

    try:
        read_name(form.text("model"))
    except ValueError:
        wrong.append("model")
    listed = amount("input")
    unit = UnitPrice(
        input=listed,
        output=amount("output"),
        cache_read=amount("cache_read", listed),
        cache_write=amount("cache_write", listed),
    )
    typed = PriceForm(
        model=form.text("model"),
        input=form.text("input"),
        output=form.text("output"),
        cache_read=form.text("cache_read"),
        cache_write=form.text("cache_write"),
        wrong=tuple(wrong),
    )
    return typed, None if wrong else unit


def read_changes(form: Form) -> tuple[BrainForm, BrainChanges]:
    """Read a Pepper model's form: as typed with the names of wrong fields, and as a change of what is right."""
    wrong: list[str] = []

    def read(field: str, reader: Callable[[str], Value]) -> Value | msgspec.UnsetType:
        try:
            return reader(form.text(field))
        except ValueError:
            wrong.append(field)
            return msgspec.UNSET

    read("name", read_name)
    changes = BrainChanges(
        provider=read("provider", _provider),
        principal=read("principal", read_name),
        economy=read("economy", read_name),
        reasoning=read("reasoning", Reasoning),
        fallback=read("fallback", lambda text: read_fallback(text or "none")),
        description=read("description", read_text),
        news=read("news", read_text),
        voice=form.on("voice"),
    )
    typed = BrainForm(
        name=form.text("name"),
        provider=form.text("provider"),
        principal=form.text("principal"),
        economy=form.text("economy"),
        reasoning=form.text("reasoning"),
        fallback=form.text("fallback"),
        description=form.text("description"),
        news=form.text("news"),
        voice=form.on("voice"),
        wrong=tuple(wrong),
    )
    return typed, changes


def told(brain: Brain) -> BrainForm:
    """A Pepper model as its form shows it."""
    return BrainForm(
        name=brain.name,
        provider=brain.provider,
        principal=brain.principal,
        economy=brain.economy,
        reasoning=brain.reasoning.value,
        fallback=str(brain.fallback),
        description=brain.description,
        news=brain.news,
        voice=brain.voice,
    )


def _provider(text: str) -> str:
    if text not in PROVIDERS:
        raise ValueError(text)
    return text
