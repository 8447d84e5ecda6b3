"""Deferred work as a caller does it: hand in, keep the receipt, come back. Replies are read strictly."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import httpx
import redis
from sqlalchemy import select

from gateway.bootstrap.serving import build
from gateway.core import Core
from gateway.domain.batches import Batch
from gateway.domain.catalog import Brain
from gateway.domain.completion import CompletionRequest
from gateway.domain.tenants import Permission
from gateway.settings import read_settings
from gateway.storage import schema
from gateway.storage.batches import Batches
from gateway.wire.requests import Envelope, decode_completion
from tests.e2e.desk import LONG_AGO, Tenant
from tests.e2e.harness import Gateway
from tests.e2e.surroundings import Fakes
from tests.fakes import CLAUDE_BATCHES, OPENAI_BATCHES, Seen
from tests.fakes.claude_batches import ClaudeBatches
from tests.fakes.openai_batches import OpenAIBatches

NUMBER = re.compile(r"prt_[0-9a-f]{12}")
NOON = datetime(2026, 11, 30, 11, 0, tzinfo=UTC)
NOT_IN_TIME = "Il provider non ha fatto in tempo entro 24 ore."
CREATE = {"claude": f"POST {CLAUDE_BATCHES}", "openai": f"POST {OPENAI_BATCHES}"}
LIST = {"claude": f"GET {CLAUDE_BATCHES}", "openai": f"GET {OPENAI_BATCHES}"}
STATE = {"claude": f"GET {CLAUDE_BATCHES}/uno", "openai": f"GET {OPENAI_BATCHES}/uno"}
RESULTS = {"claude": f"GET {CLAUDE_BATCHES}/uno/results", "openai": "GET /v1/files/uno/content"}
_RUNNING_FIELDS = ["ok", "pratica", "stato", "quanti", "meta"]


@dataclass(frozen=True)
class Worker:
    """A project that may defer, its brain, and the provider's shelf of batches."""

    gateway: Gateway
    tenant: Tenant
    provider: str
    brain: Brain
    batches: ClaudeBatches | OpenAIBatches

    async def send(
        self, *texts: str, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> httpx.Response:
        """Hand texts in; `contenuto` among the fields stands for itself."""
        what: dict[str, Any] = {} if "contenuto" in fields else {"contenuti": list(texts)}
        body = {"progetto": self.tenant.name, "encode": "libero", "modo": "differito", **what, **fields}
        found = {name: value for name, value in body.items() if value is not ...}
        return await self.gateway.client.post(
            "/api.php", json=found, headers=self.gateway.headers(self.tenant, None, headers)
        )

    def request(self) -> CompletionRequest:
        """One text, for who asks the chain itself."""
        fields = {"progetto": self.tenant.name, "encode": "libero", "modo": "differito", "contenuto": "uno"}
        return decode_completion(Envelope(self.tenant.name, fields), [])

    async def submit(self, *texts: str, **fields: Any) -> str:
        """Hand texts in and check the receipt; the number."""
        response = await self.send(*texts, **fields)
        return self.receipt(response, len(texts) or 1)

    def receipt(self, response: httpx.Response, total: int) -> str:
        """The number on a receipt, which must be the contract's to the letter."""
        assert response.status_code == 202, response.text
        assert response.headers["content-type"].startswith("application/json")
        body = response.json()
        number = body["pratica"]
        assert NUMBER.fullmatch(number)
        assert list(body) == ["ok", "risposta", "pratica", "stato", "quanti", "meta"]
        assert list(body["meta"]) == ["differito", "modello", "versione", "richiesta"]
        assert body == {
            "ok": True,
            "risposta": None,
            "pratica": number,
            "stato": "in_corso",
            "quanti": total,
            "meta": {
                "differito": True,
                "modello": self.brain.principal,
                "versione": self.brain.name,
                "richiesta": response.headers["x-request-id"],
            },
        }
        assert isinstance(number, str)
        return number

    async def ask(self, number: Any) -> httpx.Response:
        """`/pratica.php` as it answers."""
        return await self.gateway.client.post(
            "/pratica.php",
            json={"progetto": self.tenant.name, "pratica": number},
            headers=self.gateway.headers(self.tenant),
        )

    async def collect(self, number: str) -> dict[str, Any]:
        """How far a batch is, the reply's fields checked in their order."""
        response = await self.ask(number)
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        check_state(body, number)
        assert body["meta"]["versione"] == self.brain.name
        return body

    async def running(self, number: str) -> bool:
        return bool((await self.collect(number))["stato"] == "in_corso")

    # --- behind the scenes ------------------------------------------------------------------------------------------

    @property
    def fake(self) -> Any:
        return fake_of(self.gateway.fakes, self.provider)

    def asked(self, on: str) -> list[Seen]:
        """Requests of one of the addresses above."""
        method, _, place = on.partition(" ")
        pattern = re.compile(re.escape(place).replace("uno", "[^/]+"))
        return [seen for seen in self.fake.seen if seen.method == method and pattern.fullmatch(seen.path)]

    async def row(self, number: str) -> Batch | None:
        return await Batches(self.gateway.desk.database).get(self.tenant.name, number, LONG_AGO)

    async def numbers(self) -> list[str]:
        return await numbers_of(self.gateway, self.tenant)

    async def today(self) -> Any:
        """`oggi_usd`, in micro-dollars."""
        return round((await self.gateway.capabilities(self.tenant))["spesa"]["oggi_usd"] * 1_000_000)

    async def another(self, **settings: Any) -> Worker:
        """Another project with the same brain."""
        allow = settings.pop("allow", [Permission.DEFERRED])
        tenant = await self.gateway.desk.project(brain=self.brain.name, allow=allow, **settings)
        return Worker(self.gateway, tenant, self.provider, self.brain, self.batches)


def fake_of(fakes: Fakes, provider: str) -> Any:
    return fakes.claude if provider == "claude" else fakes.openai


async def worker(
    gateway: Gateway,
    provider: str = "claude",
    allow: Sequence[Permission] = (Permission.DEFERRED,),
    **settings: Any,
) -> Worker:
    """A project of its own with a brain of its own, which may defer."""
    tenant, brain = await gateway.tenant_of_its_own(provider=provider, allow=list(allow), **settings)
    return Worker(gateway, tenant, provider, brain, fake_of(gateway.fakes, provider).batches)


def check_state(body: dict[str, Any], number: str) -> None:
    """Whether the body is the contract's, field by field in its order."""
    fields = list(_RUNNING_FIELDS)
    if body["stato"] != "in_corso":
        fields.insert(4, "risposte")
        if "risposta" in body:
            fields.insert(5, "risposta")
            assert body["quanti"] == 1
        assert len(body["risposte"]) == body["quanti"]
        for item in body["risposte"]:
            check_item(item)
    assert list(body) == fields
    assert body["ok"] is True
    assert body["pratica"] == number
    assert body["stato"] in {"in_corso", "pronta", "fallita", "scaduta"}
    assert list(body["meta"]) == ["differito", "creato_il", "versione"]
    assert body["meta"]["differito"] is True
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", body["meta"]["creato_il"])


def check_item(item: dict[str, Any]) -> None:
    if not item["ok"]:
        assert list(item) == ["ok", "errore"]
        assert isinstance(item["errore"], str)
        return
    optional = [name for name in ("troncata", "citazioni") if name in item]
    assert list(item) == ["ok", "risposta", *optional]
    assert item["ok"] is True
    assert isinstance(item["risposta"], str)


async def numbers_of(gateway: Gateway, tenant: Tenant) -> list[str]:
    """The numbers of all batches of a project, whether anybody holds their receipts or not."""
    query = select(schema.batches.c.number).where(schema.batches.c.project == tenant.name)
    async with gateway.desk.database.connect() as connection:
        return [str(number) for number in await connection.scalars(query)]


@asynccontextmanager
async def one_more_process(gateway: Gateway) -> AsyncIterator[Core]:
    """On the same stores, but inside the test: its hourly work need not be waited for."""
    core = build(read_settings(gateway.variables()))
    await core.start()
    try:
        yield core
    finally:
        await core.stop()


def answer_of(body: dict[str, Any]) -> list[str | None]:
    """The texts of a batch's answers in order, None where there is none."""
    return [item["risposta"] if item["ok"] else None for item in body["risposte"]]


def total_in_gate(worker: Worker, day: date) -> int | None:
    """What the key-value store believes was spent on a day; None while it would have to ask the database."""
    name, stores = worker.tenant.name, worker.gateway.stores
    if stores.redis is not None:
        with closing(redis.Redis.from_url(stores.redis.url)) as client:
            found = client.hget(f"pepper:{{{name}}}:budget", f"{day.isoformat()}:spent")
            return None if found is None else int(found)
    with closing(sqlite3.connect(f"file:{worker.gateway.data / 'gate.db'}?mode=ro", uri=True)) as connection:
        query = "SELECT spent FROM days WHERE project = ? AND day = ?"
        row = connection.execute(query, (name, day.isoformat())).fetchone()
        return None if row is None or row[0] is None else int(row[0])
