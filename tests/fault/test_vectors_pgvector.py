"""The vector index in PostgreSQL when the server goes, freezes and comes back, who may see what there, and its graphs."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

import asyncpg
import pytest

from gateway.domain.errors import StoreAwayError
from gateway.vectors.pgvector import PgvectorIndex
from gateway.vectors.pgvector.connections import MOST_CONNECTIONS
from gateway.vectors.pgvector.graphs import graph_name
from gateway.vectors.pgvector.schema import TABLE
from tests.contract.indexes import (
    IndexStore,
    Vectors,
    as_bytes,
    ask,
    assert_like,
    brute_force,
    directions,
    run_elsewhere,
    soon,
    told_by,
    within,
    write,
)
from tests.services import LOOPBACK, Postgres, find_free_port

ROWS = directions(10)
FEW = 8
"""Dimensions, where many passages are needed."""


@pytest.fixture
async def index(vector_url: str) -> AsyncIterator[PgvectorIndex]:
    opened = PgvectorIndex(vector_url)
    yield opened
    await opened.close()


def _name(url: str) -> str:
    return urlsplit(url).path.lstrip("/")


async def _tell(postgres: Postgres, url: str, statement: str) -> str:
    return await asyncio.to_thread(postgres.tell, statement, _name(url))


async def _is_away(index: PgvectorIndex) -> None:
    """Every method says so in time."""

    async def refused(attempt: Awaitable[object]) -> None:
        begun = time.monotonic()
        with pytest.raises(StoreAwayError):
            await attempt
        assert time.monotonic() - begun < 2.2

    await asyncio.gather(
        refused(ask(index, "demo", {1: 1}, ROWS[0])),
        refused(index.passages("demo", 1, 1)),
        refused(write(index, "demo", 1, 1, ROWS)),
        refused(index.forget("demo", 1)),
        refused(index.forget_project("demo")),
        refused(index.ping()),
    )


# --- the server ---------------------------------------------------------------------------------------------------


async def test_a_server_that_is_away_from_the_start_is_found_when_it_comes(
    vector_url: str, postgres: Postgres
) -> None:
    await asyncio.to_thread(postgres.stop)
    index = PgvectorIndex(vector_url)
    await _is_away(index)
    await asyncio.to_thread(postgres.start)
    await write(index, "demo", 1, 1, ROWS)
    assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]
    await index.close()


@pytest.mark.parametrize("leave", [Postgres.stop, Postgres.kill], ids=["stop", "kill"])
async def test_a_server_that_goes_is_away_and_heals(
    index: PgvectorIndex, postgres: Postgres, leave: Callable[[Postgres], None]
) -> None:
    await write(index, "demo", 1, 1, ROWS)
    await asyncio.gather(*(ask(index, "demo", {1: 1}, ROWS[0]) for _ in range(20)))
    await asyncio.to_thread(leave, postgres)
    await _is_away(index)
    await asyncio.to_thread(postgres.start)
    found = await within(5, lambda: ask(index, "demo", {1: 1}, ROWS[3], most=1))
    assert found == [(1, 4)]
    await write(index, "demo", 2, 1, ROWS)


async def test_a_restart_between_two_calls_surfaces_nowhere(index: PgvectorIndex, postgres: Postgres) -> None:
    await write(index, "demo", 1, 1, ROWS)
    await asyncio.gather(*(ask(index, "demo", {1: 1}, ROWS[0]) for _ in range(20)))
    with postgres.away():
        pass
    found = await asyncio.gather(*(ask(index, "demo", {1: 1}, ROWS[3], most=1) for _ in range(20)))
    assert found == [[(1, 4)]] * 20


async def test_connections_that_the_server_ends_surface_nowhere(
    index: PgvectorIndex, vector_url: str, postgres: Postgres
) -> None:
    await write(index, "demo", 1, 1, ROWS)
    await asyncio.gather(*(ask(index, "demo", {1: 1}, ROWS[0]) for _ in range(20)))
    # Not given the time to see it: the next statement meets the end.
    postgres.tell(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{_name(vector_url)}'"
    )
    assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]


async def test_a_frozen_server_is_away_in_time_for_all_and_heals(
    index: PgvectorIndex, postgres: Postgres
) -> None:
    await write(index, "demo", 1, 1, ROWS)
    await asyncio.gather(*(ask(index, "demo", {1: 1}, ROWS[0]) for _ in range(20)))
    await asyncio.to_thread(postgres.freeze)
    begun = time.monotonic()
    outcomes = await asyncio.gather(
        *(ask(index, "demo", {1: 1}, ROWS[0]) for _ in range(20)),
        *(write(index, "demo", number, 1, ROWS) for number in range(2, 6)),
        return_exceptions=True,
    )
    assert time.monotonic() - begun < 4.5
    assert {type(outcome) for outcome in outcomes} == {StoreAwayError}
    await _is_away(index)
    await asyncio.to_thread(postgres.thaw)
    assert await within(5, lambda: ask(index, "demo", {1: 1}, ROWS[3], most=1)) == [(1, 4)]
    for number in range(2, 6):
        assert len(await index.passages("demo", number, 1)) in {0, 10}


async def test_a_server_that_answers_nobody_is_away_in_time() -> None:
    """An address where somebody listens and says nothing, and one where nobody does."""
    with socket.create_server((LOOPBACK, 0)) as silent:
        for port in (silent.getsockname()[1], find_free_port()):
            index = PgvectorIndex(f"postgresql://pepper:pepper@{LOOPBACK}:{port}/nowhere")
            await _is_away(index)
            await index.close()


@pytest.mark.parametrize(
    "wrong", ["postgresql://pepper:wrong-secret@{host}/{name}", "postgresql://pepper:pepper@{host}/no_such"]
)
async def test_a_refusal_says_why_and_no_secret(vector_url: str, wrong: str) -> None:
    parts = urlsplit(vector_url)
    index = PgvectorIndex(wrong.format(host=f"{LOOPBACK}:{parts.port}", name=_name(vector_url)))
    with pytest.raises(StoreAwayError, match=r"password authentication failed|does not exist") as told:
        await index.ping()
    assert "wrong-secret" not in str(told.value)
    await index.close()


async def test_a_locked_table_is_away_and_heals(
    index: PgvectorIndex, vector_url: str, postgres: Postgres
) -> None:
    await write(index, "demo", 1, 1, ROWS)
    locker = await asyncpg.connect(vector_url)
    await locker.execute(f"BEGIN; LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE")
    begun = time.monotonic()
    for attempt in (ask(index, "demo", {1: 1}, ROWS[0]), write(index, "demo", 2, 1, ROWS)):
        with pytest.raises(StoreAwayError):
            await attempt
    assert time.monotonic() - begun < 4.5
    await locker.close()
    assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]


async def test_a_database_that_takes_no_writes_still_answers(
    index: PgvectorIndex, vector_url: str, postgres: Postgres
) -> None:
    await write(index, "demo", 1, 1, ROWS)
    await index.close()
    await _tell(
        postgres, vector_url, f"ALTER DATABASE {_name(vector_url)} SET default_transaction_read_only = on"
    )
    try:
        with pytest.raises(StoreAwayError, match="read-only"):
            await write(index, "demo", 2, 1, ROWS)
        assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]
        await index.close()
    finally:
        await asyncio.to_thread(
            postgres.tell, f"ALTER DATABASE {_name(vector_url)} RESET default_transaction_read_only"
        )
    await write(index, "demo", 2, 1, ROWS)


async def test_a_lost_table_is_made_anew(index: PgvectorIndex, vector_url: str, postgres: Postgres) -> None:
    await write(index, "demo", 1, 1, ROWS)
    await asyncio.gather(*(ask(index, "demo", {1: 1}, ROWS[0]) for _ in range(20)))
    await _tell(postgres, vector_url, f"DROP TABLE {TABLE}")
    assert await ask(index, "demo", {1: 1}, ROWS[0]) == []
    await write(index, "demo", 1, 1, ROWS)
    assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]


# --- connections --------------------------------------------------------------------------------------------------


async def _connections(postgres: Postgres, url: str) -> tuple[int, int]:
    """How many there are, and how many of them are in the middle of something."""
    told = await _tell(
        postgres,
        url,
        "SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity"
        f" WHERE datname = '{_name(url)}' AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
    )
    every, busy = told.split("|")
    return int(every), int(busy)


async def test_many_callers_share_a_few_connections(
    index: PgvectorIndex, vector_url: str, postgres: Postgres
) -> None:
    await write(index, "demo", 1, 1, ROWS)
    found = await asyncio.gather(*(ask(index, "demo", {1: 1}, ROWS[3], most=1) for _ in range(200)))
    assert found == [[(1, 4)]] * 200
    assert await _connections(postgres, vector_url) == (MOST_CONNECTIONS, 0)
    await index.close()
    await soon(5, lambda: _connections(postgres, vector_url), (0, 0))


async def test_callers_who_leave_take_no_connection_with_them(
    index: PgvectorIndex, vector_url: str, postgres: Postgres
) -> None:
    rows = directions(300, dimensions=256)
    await write(index, "demo", 1, 1, rows)
    for pause in (0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032):
        tasks = [asyncio.create_task(ask(index, "demo", {1: 1}, rows[0])) for _ in range(12)]
        writing = [asyncio.create_task(write(index, "demo", number, 1, rows)) for number in range(2, 6)]
        await asyncio.sleep(pause)
        for task in (*tasks, *writing):
            task.cancel()
        for task in (*tasks, *writing):
            with suppress(asyncio.CancelledError):
                await task
    for number in range(2, 6):
        assert len(await index.passages("demo", number, 1)) in {0, 300}, "no half version"
    assert await ask(index, "demo", {1: 1}, rows[3], most=1) == [(1, 4)]

    async def settled() -> bool:
        every, busy = await _connections(postgres, vector_url)
        return every <= MOST_CONNECTIONS and busy == 0

    await soon(5, settled, wanted=True)
    places = index._connections._places
    assert places._value == MOST_CONNECTIONS


# --- setting up ---------------------------------------------------------------------------------------------------


async def test_nodes_that_start_at_once_set_up_one_table(postgres: Postgres) -> None:
    url = await asyncio.to_thread(postgres.create_database, owner=Postgres.ADMINISTRATOR, extension=False)
    try:
        store = IndexStore("pgvector", url)
        processes = [
            run_elsewhere(f"await write(index, 'demo', {number}, 1, directions(3)); print('done')", store)
            for number in range(3)
        ]
        others = [store.open() for _ in range(5)]
        await asyncio.gather(*(write(other, "else", n, 1, ROWS) for n, other in enumerate(others)))
        assert [await told_by(process) for process in processes] == ["done\n"] * 3
        live = dict.fromkeys(range(3), 1)
        assert len(await ask(store.index, "demo", live, ROWS[0], most=50)) == 9
        await store.close()
    finally:
        await asyncio.to_thread(postgres.drop_database, url)


async def test_a_role_that_may_not_make_the_extension_says_who_must(postgres: Postgres) -> None:
    url = await asyncio.to_thread(postgres.create_database, extension=False)
    try:
        index = PgvectorIndex(url)
        with pytest.raises(StoreAwayError, match="CREATE EXTENSION vector in this database"):
            await index.ping()
        await _tell(postgres, url, "CREATE EXTENSION vector")
        await write(index, "demo", 1, 1, ROWS)
        assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]
        await index.close()
    finally:
        await asyncio.to_thread(postgres.drop_database, url)


async def test_an_old_extension_is_told(index: PgvectorIndex, vector_url: str, postgres: Postgres) -> None:
    version = await _tell(
        postgres, vector_url, "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    )
    await _tell(postgres, vector_url, "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
    try:
        with pytest.raises(StoreAwayError, match=r"0\.7\.4, and 0\.8 or newer is needed"):
            await index.ping()
    finally:
        await _tell(
            postgres,
            vector_url,
            f"UPDATE pg_extension SET extversion = '{version}' WHERE extname = 'vector'",
        )
    await index.ping()


async def test_another_releases_table_is_left_alone(
    index: PgvectorIndex, vector_url: str, postgres: Postgres
) -> None:
    await write(index, "demo", 1, 1, ROWS)
    await index.close()
    await _tell(postgres, vector_url, f"COMMENT ON TABLE {TABLE} IS 'Pepper, layout 99'")
    with pytest.raises(StoreAwayError, match="another release: Pepper, layout 99"):
        await index.ping()
    assert await _tell(postgres, vector_url, f"SELECT count(*) FROM {TABLE}") == "10"


async def test_pgvector_may_be_in_a_schema_of_its_own(postgres: Postgres) -> None:
    url = await asyncio.to_thread(postgres.create_database, extension=False)
    try:
        await _tell(
            postgres,
            url,
            "CREATE SCHEMA extensions; GRANT USAGE ON SCHEMA extensions TO pepper;"
            "CREATE EXTENSION vector SCHEMA extensions",
        )
        index = PgvectorIndex(url)
        with pytest.raises(StoreAwayError, match="search path"):
            await index.ping()
        await _tell(postgres, url, f"ALTER DATABASE {_name(url)} SET search_path = public, extensions")
        await write(index, "demo", 1, 1, ROWS)
        assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]
        await index.close()
    finally:
        await asyncio.to_thread(postgres.drop_database, url)


# --- the second wall ----------------------------------------------------------------------------------------------


async def test_the_database_itself_shows_and_takes_rows_of_the_named_project_alone(
    index: PgvectorIndex, vector_url: str
) -> None:
    await write(index, "uno", 1, 1, ROWS)
    await write(index, "due", 1, 1, ROWS[:4])
    connection = await asyncpg.connect(vector_url)
    counted = f"SELECT count(*) FROM {TABLE}"
    assert await connection.fetchval(counted) == 0, "no project named"
    for name, count in (("uno", 10), ("due", 4), ("tre", 0), ("%", 0), ("", 0)):
        async with connection.transaction():
            await connection.fetchval("SELECT set_config('pepper.project', $1, true)", name)
            assert await connection.fetchval(counted) == count
            assert await connection.fetchval(f"{counted} WHERE project = 'uno'") == (
                10 if name == "uno" else 0
            )
    assert await connection.fetchval(counted) == 0, "the name ends with its transaction"
    for statement in (
        f"INSERT INTO {TABLE} VALUES ('due', 9, 1, 1, 2, 'intruso', '[1,0]'::halfvec)",
        f"UPDATE {TABLE} SET project = 'due'",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await connection.execute(f"SET pepper.project = 'uno'; {statement}")
    async with connection.transaction():
        await connection.execute("SET LOCAL pepper.project = 'due'")
        assert await connection.execute(f"DELETE FROM {TABLE} WHERE project = 'uno'") == "DELETE 0"
    assert len(await index.passages("uno", 1, 1)) == 10
    await connection.close()


async def test_a_kept_connection_names_no_project(index: PgvectorIndex, vector_url: str) -> None:
    await write(index, "demo", 1, 1, ROWS)
    await ask(index, "demo", {1: 1}, ROWS[0])
    for connection in index._connections._idle:
        assert await connection.fetchval("SELECT current_setting('pepper.project', true)") in {None, ""}
        assert await connection.fetchval(f"SELECT count(*) FROM {TABLE}") == 0


# --- many passages ------------------------------------------------------------------------------------------------


async def _graphs(postgres: Postgres, url: str) -> list[str]:
    told = await _tell(
        postgres,
        url,
        "SELECT relname FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid"
        f" WHERE indrelid = '{TABLE}'::regclass AND indisvalid AND relname LIKE 'pepper_graph%' ORDER BY 1",
    )
    return told.split()


async def _scans(postgres: Postgres, url: str, graph: str) -> int:
    return int(
        await _tell(
            postgres, url, f"SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = '{graph}'"
        )
    )


async def _fill(index: PgvectorIndex, project: str, documents: dict[int, Vectors], version: int = 1) -> None:
    for number, rows in documents.items():
        await write(index, project, number, version, rows)


async def _recall(
    index: PgvectorIndex, project: str, documents: dict[int, Vectors], live: dict[int, int]
) -> float:
    """The share of the true five that is found, over some questions."""
    hits = 0
    questions = directions(20, seed=1234, dimensions=FEW)
    for question in questions:
        true = {
            (match.document, match.passage)
            for match in brute_force({number: documents[number] for number in live}, question, 5)
        }
        found = await ask(index, project, live, question)
        assert len(found) == 5
        hits += len(true & set(found))
    return hits / (5 * len(questions))


async def test_a_project_with_more_than_20_000_passages_gets_a_graph_that_goes_with_it(
    index: PgvectorIndex, vector_url: str, postgres: Postgres
) -> None:
    documents = {number: directions(2_010, seed=number, dimensions=FEW) for number in range(10)}
    first = dict(list(documents.items())[:9])
    await _fill(index, "demo", first)
    await write(index, "altro", 1, 1, documents[0])
    await index._graphs.close()
    assert await _graphs(postgres, vector_url) == [], "18,090 are not enough"
    await write(index, "demo", 9, 1, documents[9])
    graph = graph_name("demo", FEW)
    await soon(60, lambda: _graphs(postgres, vector_url), [graph])
    await index._graphs.close()
    live = dict.fromkeys(documents, 1)
    assert await _recall(index, "demo", documents, live) >= 0.95
    await index.close()  # what was counted is told when a connection ends
    await soon(10, lambda: _has_scans(postgres, vector_url, graph), wanted=True)
    assert await ask(index, "altro", {1: 1}, documents[0][5], most=1) == [(1, 6)]
    await index.forget_project("demo")
    await soon(20, lambda: _graphs(postgres, vector_url), [])
    assert await ask(index, "demo", live, documents[0][0]) == []
    assert len(await index.passages("altro", 1, 1)) == 2_010


async def _has_scans(postgres: Postgres, url: str, graph: str) -> bool:
    return await _scans(postgres, url, graph) > 0


@pytest.fixture
async def eager(vector_url: str) -> AsyncIterator[PgvectorIndex]:
    """An index that makes graphs early."""
    opened = PgvectorIndex(vector_url, graph_above=500)
    yield opened
    await opened.close()


async def test_through_a_graph_live_versions_alone_are_found_and_enough_of_them(
    eager: PgvectorIndex, vector_url: str, postgres: Postgres
) -> None:
    documents = {number: directions(300, seed=number, dimensions=FEW) for number in range(6)}
    await _fill(eager, "demo", documents, version=1)
    for version in (2, 3):  # dead: the same places, so that the graph meets them first
        await _fill(eager, "demo", documents, version=version)
    await soon(30, lambda: _graphs(postgres, vector_url), [graph_name("demo", FEW)])
    await eager._graphs.close()
    for live in (
        dict.fromkeys(documents, 1),
        {number: 1 + number % 3 for number in documents},
        {4: 2},
    ):
        assert await _recall(eager, "demo", documents, live) >= 0.95
        for question in directions(5, seed=55, dimensions=FEW):
            found = await eager.search("demo", live, as_bytes(question[None])[0], 40, -1.0)
            assert len(found) == 40
            assert {match.document for match in found} <= set(live)
            order = [match.similarity for match in found]
            assert order == sorted(order, reverse=True)
    await write(eager, "demo", 77, 1, directions(3, seed=77, dimensions=FEW))
    few = await ask(eager, "demo", {77: 1}, documents[0][0], most=10)
    assert sorted(few) == [(77, 1), (77, 2), (77, 3)], "a handful among thousands"
    assert await ask(eager, "demo", {99: 1}, documents[0][0]) == []


async def test_the_graphs_of_projects_and_embedders_are_apart(
    eager: PgvectorIndex, vector_url: str, postgres: Postgres
) -> None:
    rows = {
        (name, dimensions): directions(600, seed=len(name), dimensions=dimensions)
        for name in ("uno", "l'altro; --")
        for dimensions in (FEW, 12)
    }
    for (name, dimensions), own in rows.items():
        await write(eager, name, dimensions, 1, own)
    wanted = sorted(graph_name(name, dimensions) for name, dimensions in rows)
    await soon(30, lambda: _graphs(postgres, vector_url), wanted)
    await eager._graphs.close()
    for (name, dimensions), own in rows.items():
        live = {FEW: 1, 12: 1}
        found = await eager.search(name, live, as_bytes(own)[9], 5, -1.0)
        assert_like(found, brute_force({dimensions: own}, own[9], 5))
    await eager.forget("uno", FEW)
    await write(eager, "uno", 1, 1, directions(1, dimensions=12))
    kept = [name for name in wanted if name != graph_name("uno", FEW)]
    await soon(20, lambda: _graphs(postgres, vector_url), kept)


async def test_processes_that_need_the_same_graph_make_one(vector_url: str, postgres: Postgres) -> None:
    indexes = [PgvectorIndex(vector_url, graph_above=500) for _ in range(4)]
    await asyncio.gather(
        *(
            write(index, "demo", number, 1, directions(400, seed=number, dimensions=FEW))
            for number, index in enumerate(indexes)
        )
    )
    await soon(30, lambda: _graphs(postgres, vector_url), [graph_name("demo", FEW)])
    for index in indexes:
        await index.close()
    count = await _tell(
        postgres, vector_url, "SELECT count(*) FROM pg_class WHERE relname LIKE 'pepper_graph%'"
    )
    assert count == "1"


async def test_a_graph_that_was_left_unfinished_is_made_anew(
    eager: PgvectorIndex, vector_url: str, postgres: Postgres
) -> None:
    rows = directions(600, dimensions=FEW)
    await write(eager, "demo", 1, 1, rows)
    graph = graph_name("demo", FEW)
    await soon(30, lambda: _graphs(postgres, vector_url), [graph])
    await eager._graphs.close()
    await _tell(
        postgres, vector_url, f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{graph}'::regclass"
    )
    assert await _graphs(postgres, vector_url) == []
    assert await ask(eager, "demo", {1: 1}, rows[3], most=1) == [(1, 4)]
    await write(eager, "demo", 2, 1, rows)
    await soon(30, lambda: _graphs(postgres, vector_url), [graph])


async def test_a_role_that_may_not_make_graphs_scans(
    vector_url: str, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    """The table belongs to another, as where an administrator has set it up."""
    owner = PgvectorIndex(vector_url)
    await owner.ping()
    await owner.close()
    guest, name = f"guest_{os.getpid()}", _name(vector_url)
    await _tell(
        postgres,
        vector_url,
        f"CREATE ROLE {guest} LOGIN PASSWORD 'pepper'; GRANT ALL ON {TABLE} TO {guest};",
    )
    try:
        index = PgvectorIndex(
            f"postgresql://{guest}:pepper@{LOOPBACK}:{urlsplit(vector_url).port}/{name}", graph_above=500
        )
        rows = directions(600, dimensions=FEW)
        await write(index, "demo", 1, 1, rows)
        await index._graphs.close()
        assert "could not be made or dropped: must be owner of" in caplog.text
        assert await ask(index, "demo", {1: 1}, rows[3], most=1) == [(1, 4)]
        assert await _graphs(postgres, vector_url) == []
        await index.close()
    finally:
        await _tell(postgres, vector_url, f"DROP OWNED BY {guest}; DROP ROLE {guest}")


async def test_many_passages_are_scanned_by_several_connections_and_nothing_is_lost_between_them(
    index: PgvectorIndex,
) -> None:
    documents = {number: directions(700, seed=number, dimensions=FEW) for number in range(15)}
    await _fill(index, "demo", documents)
    assert (await index._graphs.of("demo", FEW, asyncio.get_running_loop().time() + 2)).passages == 10_500
    live = dict.fromkeys(documents, 1)
    for question in directions(5, seed=9, dimensions=FEW):
        found = await index.search("demo", live, as_bytes(question[None])[0], 30, -1.0)
        assert_like(found, brute_force(documents, question, 30))
    # As many callers as connections: nobody waits for a second one while holding a first.
    found_by_all = await asyncio.gather(*(ask(index, "demo", live, ROWS[0][:FEW]) for _ in range(40)))
    assert len({tuple(found) for found in found_by_all}) == 1


def test_a_graphs_name_fits_and_needs_no_quotes() -> None:
    names = {graph_name(project, 1536) for project in ("demo", "Demo", "x" * 300, "'; --", "😀")}
    assert len(names) == 5
    assert all(len(name) <= 63 and name.replace("_", "").isalnum() and name.islower() for name in names)
