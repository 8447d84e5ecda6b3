"""Whether a call costs more where there is much already: `python -m tests.bench --growth`.

Two gateways on each kind of store, asked in turn: one as it was made, the other with ten thousand projects, a ledger of
many rows and conversations of hundreds of turns, more than a model is sent.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import click
import pymysql
import pytest

from tests.bench import panel
from tests.bench.cases import CONTENT, Case
from tests.bench.machine import Cores, description, let_files_be_open, load_average
from tests.bench.processes import Callers, Gateway, mock_provider
from tests.services import LOOPBACK, MariaDb, Redis

PROJECTS = 10_000
PAIRS = (500, 2_000)
PAIR_CHARACTERS = 400
"""Of a question, and of an answer: a model is sent the newest 375 pairs or so, the most that it gets."""
ROUNDS, SECONDS = 5, 2.0
CHUNK = 500_000

MYSQL_ROWS = """
INSERT INTO calls
SELECT
    CONCAT('req_', LPAD(HEX(seq), 27, '0')),
    CONCAT('progetto-', FLOOR(POW(RAND(), 2) * 10)),
    DATE(FROM_UNIXTIME(%(begin)s + seq * %(step)s)), FROM_UNIXTIME(%(begin)s + seq * %(step)s),
    'libero', 1, 'ok', 1, NULL, 'Pepper 6', 'claude', 'claude-opus-5', NULL,
    400, 130, 0, 0, 0, 5335, '[]', NULL, 0, 12, 10, NULL
FROM seq_{first}_to_{last}
"""
Asked: TypeAlias = tuple[Gateway, Case]
CALL = Case(name="whole call", callers=64, fields={"encode": "libero", "contenuto": CONTENT})


def measure_growth(rows: int) -> None:
    click.echo(
        f"{description()}; load before the start {load_average()}; {rows:,} rows, {PROJECTS:,} projects"
    )
    cores = Cores()
    cores.settle()
    let_files_be_open()
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="pepper-bench-")))
        provider = ending.enter_context(mock_provider())
        callers = Callers()
        ending.callback(callers.stop)
        pairs = [_embedded(folder, provider, rows)]
        try:
            pairs.append(_production(ending, folder, provider, rows))
        except (pytest.skip.Exception, pytest.fail.Exception) as missing:
            click.echo(f"left out: MySQL+Redis: {missing}")
        for pair in pairs:
            for gateway in pair:
                ending.callback(gateway.stop)
                gateway.start(cores)
        click.echo(f"{'':44} {'as made':>12} {'grown':>12} {'ratio, round by round':>26}   µs of CPU a call")
        for small, grown in pairs:
            _compare(f"whole call, {grown.name}", (small, CALL), (grown, CALL), callers)
            few, many = PAIRS
            name = f"turn {many:,} for turn {few}, {grown.name}"
            _compare(name, (grown, _turn(few)), (grown, _turn(many)), callers)
            click.echo(f"{small.name}: {small.memory_mb:.0f} MB as made, {grown.memory_mb:.0f} MB grown")


def _turn(pairs: int) -> Case:
    fields = {"encode": "libero", "contenuto": "E poi?", "conversazione": f"cnv_{pairs:016d}"}
    return Case(name="turn", callers=4, fields=fields)


def _compare(name: str, one: Asked, other: Asked, callers: Callers) -> None:
    figures = [(_cpu(*one, callers), _cpu(*other, callers)) for _ in range(ROUNDS + 1)]
    del figures[0]  # it made connections and statements
    ratios = sorted(later / earlier for earlier, later in figures)
    earlier, later = (median(pair[side] for pair in figures) for side in (0, 1))
    spread = f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    click.echo(f"{name:44} {earlier:>12,.0f} {later:>12,.0f} {spread:>26}")


def _cpu(gateway: Gateway, case: Case, callers: Callers) -> float:
    cpu = gateway.cpu_seconds
    result = callers.carry_out(case.job(gateway.port, gateway.keys, SECONDS))
    if result.wrong:
        click.echo(f"{case.name}: {result.wrong} wrong answers: {result.example} {gateway.last_fault()}")
    return (gateway.cpu_seconds - cpu) / max(result.calls, 1) * 1e6


def _embedded(folder: Path, provider: int, rows: int) -> tuple[Gateway, Gateway]:
    small, grown = (Gateway("embedded", folder / name, provider, {}) for name in ("small", "grown"))
    for gateway in (small, grown):
        gateway.prepare()
    seconds = panel.fill(grown.data / "pepper.db", rows)
    with closing(sqlite3.connect(grown.data / "pepper.db")) as connection:
        for sql, values in _more(grown):
            connection.executemany(sql, values)
        connection.commit()
    click.echo(f"the embedded database filled in {seconds:.0f} s", err=True)
    return small, grown


def _production(ending: ExitStack, folder: Path, provider: int, rows: int) -> tuple[Gateway, Gateway]:
    database = MariaDb()
    ending.callback(database.remove)
    database.start()
    gateways, began = [], time.monotonic()
    stores: dict[str, str] = {}
    for name in ("small", "grown"):
        keys = Redis()
        ending.callback(keys.remove)
        keys.start()
        stores = {"PEPPER_DATABASE_URL": database.create_database(), "PEPPER_REDIS_URL": keys.url}
        gateway = Gateway("MySQL+Redis", folder / f"mysql-{name}", provider, stores)
        gateway.prepare()
        gateways.append(gateway)
    with _connected(stores["PEPPER_DATABASE_URL"]) as cursor:
        _fill_mysql(cursor, rows)
        for sql, values in _more(gateways[1]):
            cursor.executemany(sql.replace("?", "%s"), values)
    click.echo(f"MySQL filled in {time.monotonic() - began:.0f} s", err=True)
    return gateways[0], gateways[1]


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    parts = urlsplit(url)
    with (
        closing(
            pymysql.connect(
                host=LOOPBACK,
                port=parts.port or 0,
                user=parts.username or "",
                password=parts.password or "",
                database=parts.path.lstrip("/"),
                autocommit=True,
            )
        ) as connection,
        connection.cursor() as cursor,
    ):
        yield cursor


def _fill_mysql(cursor: Any, rows: int) -> None:
    """Put the rows there in the order of their ids, other indexes last."""
    cursor.execute("SET GLOBAL innodb_buffer_pool_size = 512 * 1024 * 1024")
    cursor.execute("SHOW INDEX FROM calls WHERE Key_name != 'PRIMARY'")
    indexes: dict[str, list[str]] = {}
    for row in cursor.fetchall():
        indexes.setdefault(row[2], []).append(row[4])
    for name in indexes:
        cursor.execute(f"ALTER TABLE calls DROP INDEX `{name}`")
    span = timedelta(days=panel.DAYS).total_seconds()
    values = {"begin": time.time() - span - 60, "step": span / rows}
    for first in range(1, rows + 1, CHUNK):
        last = min(first + CHUNK - 1, rows)
        cursor.execute(MYSQL_ROWS.format(first=first, last=last), values)
    made = ", ".join(
        f"ADD INDEX `{name}` ({', '.join(f'`{column}`' for column in columns)})"
        for name, columns in indexes.items()
    )
    cursor.execute(f"ALTER TABLE calls {made}")


def _more(gateway: Gateway) -> Iterator[tuple[str, Sequence[tuple[Any, ...]]]]:
    """Projects with a key each, and conversations of the bench's project."""
    now = datetime.now(UTC).replace(tzinfo=None)
    at = now.isoformat(" ", "microseconds")
    names = [f"cresciuto-{number}" for number in range(PROJECTS)]
    columns = "name, active, permissions, hourly_limit, domains, sandbox, internal, created_at"
    yield (
        f"INSERT INTO projects ({columns}) VALUES (?, 1, '[]', 100, '[]', 0, 0, ?)",
        [(name, at) for name in names],
    )
    yield (
        "INSERT INTO project_keys (project, digest, label, created_at) VALUES (?, ?, '', ?)",
        [(name, number.to_bytes(32, "big"), at) for number, name in enumerate(names, 1)],
    )
    for length in PAIRS:
        conversation = f"cnv_{length:016d}"
        yield (
            "INSERT INTO conversations (project, id, pairs, created_at, touched_at) VALUES (?, ?, ?, ?, ?)",
            [("bench", conversation, length, at, at)],
        )
        order = "project, conversation, number, request_id, question, answer, at"
        said = ("parola " * PAIR_CHARACTERS)[:PAIR_CHARACTERS]
        yield (
            f"INSERT INTO pairs ({order}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                ("bench", conversation, number, f"req_{length}_{number}", said, said, at)
                for number in range(1, length + 1)
            ],
        )
