"""The private servers of the tests start, go away, come back and keep what they were told; and no test
reaches the world."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pymysql
import pytest
import redis
import redis.asyncio
from pymysql.cursors import Cursor

from tests.services import (
    MariaDb,
    Postgres,
    PostgresError,
    Redis,
    World,
    WorldReachedError,
    find_free_port,
    require,
)

CUT = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""What a client says of a server that has just gone."""


def _mysql(url: str, patience: float = 10) -> pymysql.Connection[Cursor]:
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 0,
        user=parts.username,
        password=parts.password or "",
        database=parts.path.lstrip("/"),
        autocommit=True,
        connect_timeout=patience,
        read_timeout=patience,
    )


def _tell(url: str, statement: str) -> tuple[tuple[object, ...], ...]:
    with closing(_mysql(url)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def test_each_test_has_an_empty_database(mysql_url: str, mariadb: MariaDb) -> None:
    other = mariadb.create_database()
    _tell(mysql_url, "CREATE TABLE t (n INT)")
    assert _tell(mysql_url, "SHOW TABLES") == (("t",),)
    assert _tell(other, "SHOW TABLES") == ()
    mariadb.drop_database(other)
    with pytest.raises(pymysql.MySQLError):
        _tell(other, "SELECT 1")


def test_a_database_is_dropped_under_an_open_transaction(mariadb: MariaDb) -> None:
    url = mariadb.create_database()
    _tell(url, "CREATE TABLE t (n INT)")
    with closing(_mysql(url)) as held, held.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        cursor.execute("INSERT INTO t VALUES (1)")
        mariadb.drop_database(url)


@pytest.mark.parametrize("leave", [MariaDb.stop, MariaDb.kill], ids=["stop", "kill"])
def test_mariadb_comes_back_with_what_it_knew(mysql_url: str, mariadb: MariaDb, leave: object) -> None:
    _tell(mysql_url, "CREATE TABLE t (n INT)")
    _tell(mysql_url, "INSERT INTO t VALUES (7)")
    assert callable(leave)
    leave(mariadb)
    assert not mariadb.running
    with pytest.raises(pymysql.MySQLError):
        _tell(mysql_url, "SELECT n FROM t")
    mariadb.start()
    assert _tell(mysql_url, "SELECT n FROM t") == ((7,),)


def test_a_frozen_mariadb_says_nothing_until_it_thaws(mysql_url: str, mariadb: MariaDb) -> None:
    mariadb.freeze()
    with pytest.raises(pymysql.MySQLError):
        _mysql(mysql_url, patience=1)
    mariadb.thaw()
    assert _tell(mysql_url, "SELECT 1") == ((1,),)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a process's user is read from /proc")
def test_mariadb_never_runs_as_root(mariadb: MariaDb) -> None:
    user = Path(f"/proc/{mariadb.pid}").stat().st_uid
    assert user == mariadb.folder.stat().st_uid
    assert user != 0


def test_redis_keeps_everything_it_is_told(redis_url: str, redis_server: Redis) -> None:
    with closing(redis.Redis.from_url(redis_url)) as client:
        assert client.config_get("appendonly", "maxmemory-policy") == {
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
        }
        client.set("k", "v")
        redis_server.kill()
        with pytest.raises(redis.ConnectionError):
            redis.Redis.from_url(redis_url, retry=None).get("k")
        redis_server.start()
        assert client.get("k") == b"v"
        with redis_server.away():
            assert not redis_server.running
        assert client.get("k") == b"v"
        redis_server.flush()
        assert client.get("k") is None


async def test_redis_answers_in_a_loop_while_it_goes_and_comes(redis_url: str, redis_server: Redis) -> None:
    async with redis.asyncio.from_url(redis_url) as client:
        await client.set("k", "v")
        await asyncio.to_thread(redis_server.freeze)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.get("k"), 0.3)
        await asyncio.to_thread(redis_server.thaw)
    async with redis.asyncio.from_url(redis_url) as client:
        assert await client.get("k") == b"v"


def test_a_server_that_cannot_start_says_why(redis_server: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    redis_server.stop()
    monkeypatch.setattr(Redis, "_command", lambda self: [self._server, "--nonsense"])
    with pytest.raises(RuntimeError, match=r"redis ended with status 1\n(?s:.*)nonsense"):
        redis_server.start()


def test_a_server_leaves_nothing_behind() -> None:
    server = Redis()
    server.start()
    pid = server.pid
    assert pid is not None
    server.remove()
    assert not server.folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(("ci", "outcome"), [("", "Skipped"), ("true", "Failed")])
def test_a_missing_program_is_left_out_here_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: str
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr("tests.services._PATH", "")
    with pytest.raises(BaseException, match="needs MariaDB: make services") as told:
        require("mariadbd")
    assert type(told.value).__name__ == outcome


def test_free_ports_are_free_and_never_an_outgoing_one(free_port: int) -> None:
    assert 20_000 <= free_port < 30_000
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port))
    assert find_free_port() != find_free_port()


@pytest.mark.parametrize("host", ["192.0.2.1", "example.com", "2001:db8::1"])
def test_the_world_is_out_of_reach(world: World, host: str) -> None:
    with pytest.raises(WorldReachedError):
        socket.create_connection((host, 80), timeout=1)
    assert world.attempts == [host]
    world.attempts.clear()


async def test_the_world_is_out_of_reach_in_a_loop(world: World) -> None:
    with pytest.raises(WorldReachedError):
        await asyncio.open_connection("192.0.2.1", 80)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram, pytest.raises(WorldReachedError):
        datagram.sendto(b"x", ("192.0.2.1", 53))
    world.attempts.clear()


def test_this_machine_is_in_reach(tmp_path: Path, world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1])).close()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))
    assert world.attempts == []


def test_each_test_has_an_empty_postgres_database_with_pgvector(vector_url: str, postgres: Postgres) -> None:
    name = urlsplit(vector_url).path.lstrip("/")
    assert postgres.tell("SELECT extname FROM pg_extension WHERE extname = 'vector'", name) == "vector"
    assert postgres.tell("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", name) == "0"
    other = postgres.create_database(extension=False)
    assert postgres.tell("SELECT count(*) FROM pg_extension", urlsplit(other).path.lstrip("/")) == "1"
    postgres.drop_database(other)
    with pytest.raises(PostgresError, match="does not exist"):
        postgres.tell("SELECT 1", urlsplit(other).path.lstrip("/"))
    assert postgres.tell("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = 'pepper'") == "f|f"


@pytest.mark.parametrize("leave", [Postgres.stop, Postgres.kill], ids=["stop", "kill"])
async def test_postgres_comes_back_with_what_it_knew(
    vector_url: str, postgres: Postgres, leave: Callable[[Postgres], None]
) -> None:
    connection = await asyncpg.connect(vector_url)
    await connection.execute("CREATE TABLE t (n INT); INSERT INTO t VALUES (7)")
    await asyncio.to_thread(leave, postgres)
    assert not postgres.running
    with pytest.raises(CUT):
        await connection.fetchval("SELECT n FROM t")
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncpg.connect(vector_url)
    connection.terminate()
    await asyncio.to_thread(postgres.start)
    connection = await asyncpg.connect(vector_url)
    assert await connection.fetchval("SELECT n FROM t") == 7
    await connection.close()


async def test_a_postgres_database_is_emptied_under_whoever_uses_it(
    vector_url: str, postgres: Postgres
) -> None:
    connection = await asyncpg.connect(vector_url)
    await connection.execute("CREATE TABLE t (n INT)")
    await asyncio.to_thread(postgres.empty_database, vector_url)
    with pytest.raises(CUT):
        await connection.fetchval("SELECT count(*) FROM t")
    connection = await asyncpg.connect(vector_url)
    with pytest.raises(asyncpg.UndefinedTableError):
        await connection.fetchval("SELECT count(*) FROM t")
    await connection.close()


@pytest.mark.parametrize(("ci", "outcome"), [("", "Skipped"), ("true", "Failed")])
def test_without_its_package_postgres_is_left_out_here_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: str
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr("tests.services.find_spec", lambda name: None)
    with pytest.raises(BaseException, match="needs PostgreSQL: make setup") as told:
        Postgres()
    assert type(told.value).__name__ == outcome


async def test_a_frozen_postgres_says_nothing_until_it_thaws(vector_url: str, postgres: Postgres) -> None:
    connection = await asyncpg.connect(vector_url)
    await asyncio.to_thread(postgres.freeze)
    asked = asyncio.ensure_future(connection.fetchval("SELECT 1"))
    with pytest.raises(TimeoutError):
        await asyncpg.connect(vector_url, timeout=0.3)
    assert not asked.done()
    await asyncio.to_thread(postgres.thaw)
    assert await asked == 1
    await connection.close()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a process's user is read from /proc")
def test_postgres_never_runs_as_root(postgres: Postgres) -> None:
    assert Path(f"/proc/{postgres.pid}").stat().st_uid != 0
