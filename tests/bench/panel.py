"""How long the panel's pages take over a long ledger: `python -m tests.bench --only panel`."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import click
import httpx

from tests.bench.machine import description, load_average
from tests.e2e.harness import Gateway
from tests.e2e.panel import Visit, let_in
from tests.e2e.surroundings import Fakes, Stores
from tests.fakes import ClaudeServer, OpenAIServer

NAME = "panel"
ROWS, QUICK_ROWS = 10_000_000, 1_000_000
DAYS = 300
TIMES = 5
EMAIL = "misura@example.it"
EXPORTED_MB = 10

# Rows from the oldest to the newest, `:rows` over `:days` until now. A rare project has one call in fifty thousand.
FILL = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows),
drawn AS (
    SELECT n, :begin + (:end - :begin) * n / :rows AS at, abs(random()) % 1000 AS a, abs(random()) % 1000 AS b FROM numbers
)
INSERT INTO calls
SELECT
    printf('req_%011x%016x', CAST(at * 1000 AS INTEGER), n),
    CASE WHEN n % 50000 = 0 THEN 'raro' ELSE 'progetto-' || (a * a / 100000) END,
    date(at, 'unixepoch'),
    strftime('%Y-%m-%d %H:%M:%f', at, 'unixepoch') || '000',
    CASE WHEN n % 50000 = 1 THEN 'rara' ELSE 'ricetta-' || (b % 8) END,
    1,
    CASE WHEN b < 950 THEN 'ok' WHEN b < 980 THEN 'cache' WHEN b < 995 THEN 'rifiutata' ELSE 'errore' END,
    1, NULL, 'Pepper 6', 'claude', CASE WHEN b % 3 THEN 'claude-haiku-4-5' ELSE 'claude-opus-5' END,
    CASE WHEN b >= 995 THEN 'provider_non_disponibile' END,
    a, b, 0, 0, 0, a * 7, '[]', NULL, 0, a + b, a, NULL
FROM drawn
"""


def measure_panel(*, quick: bool) -> None:
    rows = QUICK_ROWS if quick else ROWS
    click.echo(f"{description()}; load before the start {load_average()}; {rows:,} rows of {DAYS} days")
    folder = Path(tempfile.mkdtemp(prefix="pepper-bench-"))
    try:
        with ClaudeServer() as claude, OpenAIServer() as openai:
            gateway = Gateway(Stores("embedded"), Fakes(claude, openai), folder=folder)
            with gateway:
                gateway.start()
                gateway.terminate()
                click.echo(f"filled in {fill(gateway.data / 'pepper.db', rows):.0f} s", err=True)
                gateway.start()
                asyncio.run(_measure(gateway, rows))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fill(file: Path, rows: int) -> float:
    """Put the rows there, indexes last; gives the seconds it took."""
    began, now = time.monotonic(), datetime.now(UTC)
    span = {"begin": (now - timedelta(days=DAYS)).timestamp(), "end": now.timestamp() - 60, "rows": rows}
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -500000;")
        kept = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'calls' AND sql IS NOT NULL"
        indexes = connection.execute(kept).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        connection.execute(FILL, span)
        for _, sql in indexes:
            connection.execute(sql)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return time.monotonic() - began


async def _measure(gateway: Gateway, rows: int) -> None:
    click.echo(f"{'':44} {'first ms':>9} {'p50 ms':>9} {'most ms':>9}")
    async with (
        gateway.connected(),
        httpx.AsyncClient(base_url=gateway.address, timeout=60) as client,
    ):
        await let_in(gateway, EMAIL)
        assert (await Visit(client).login(EMAIL)).status_code == 303
        now = datetime.now(UTC)
        middle = now - timedelta(days=DAYS / 2)
        day = f"{middle:%Y-%m-%d}"
        deep = f"{day}~{middle.timestamp():.6f}~req_"
        cases = {
            "overview": "/panel",
            "ledger, newest": "/panel/ledger",
            "ledger, half-way": f"/panel/ledger?after={deep}",
            "ledger, a project": "/panel/ledger?project=progetto-0",
            "ledger, a project, half-way": f"/panel/ledger?project=progetto-0&after={deep}",
            "ledger, a rare project": "/panel/ledger?project=raro",
            "ledger, a rare recipe": "/panel/ledger?recipe=rara",
            "ledger, failures": "/panel/ledger?outcome=errore",
            "ledger, a project's failures": "/panel/ledger?project=progetto-9&outcome=errore",
            "ledger, a day": f"/panel/ledger?from={day}&to={day}",
            "ledger, a day's rare recipe": f"/panel/ledger?from={day}&to={day}&recipe=rara",
            "ledger, a project's day": f"/panel/ledger?project=progetto-3&from={day}&to={day}",
            "ledger, what nothing fits": "/panel/ledger?recipe=nessuna",
            "ledger, a project nobody has": "/panel/ledger?project=nessuno",
            "ledger, a request": f"/panel/ledger?request=req_{0:011x}{rows // 2:016x}",
        }
        for name, path in cases.items():
            taken = [await _timed(client, path) for _ in range(TIMES)]
            click.echo(f"{name:44} {_row(taken)}")
        click.echo(f"{'export, to its first rows':44} {_row([await _begun(client) for _ in range(TIMES)])}")
        click.echo(f"{'export, MB a second':44} {await _exported(client):>9.1f}")


async def _timed(client: httpx.AsyncClient, path: str) -> float:
    began = time.perf_counter()
    answer = await client.get(path)
    assert answer.status_code == 200, f"{path}: {answer.status_code}"
    return (time.perf_counter() - began) * 1e3


async def _begun(client: httpx.AsyncClient) -> float:
    began = time.perf_counter()
    async with client.stream("GET", "/panel/ledger.csv") as answer:
        async for _ in answer.aiter_bytes():
            break
    return (time.perf_counter() - began) * 1e3


async def _exported(client: httpx.AsyncClient) -> float:
    began, size = time.perf_counter(), 0
    async with client.stream("GET", "/panel/ledger.csv") as answer:
        async for piece in answer.aiter_bytes():
            size += len(piece)
            if size > EXPORTED_MB * 1_000_000:
                break
    return size / 1e6 / (time.perf_counter() - began)


def _row(taken: Sequence[float]) -> str:
    return f"{taken[0]:>9.0f} {median(taken[1:]):>9.0f} {max(taken):>9.0f}"
