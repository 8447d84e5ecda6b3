"""The served gateway as a test sees it: a real process on a real port, with real stores and fake providers behind it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from gateway.domain.catalog import Brain, Fallback
from tests.e2e.desk import Desk, Tenant
from tests.e2e.surroundings import Fakes, Stores
from tests.e2e.told import Stream
from tests.e2e.waiting import command_line, eventually, lives
from tests.fakes.claude_models import NEWEST
from tests.services import LOOPBACK, find_free_port

SECRET = "a secret of the tests, long enough for anybody"
START_SECONDS = 30.0
STOP_SECONDS = 30.0
CALL_SECONDS = 100.0
CHANGE_SECONDS = 2.0
"""In which a change of the configuration reaches every worker."""
REPOSITORY = Path(__file__).parents[2]

# What of the tests' own environment must not reach the server.
_FOREIGN = ("PEPPER_", "ANTHROPIC_", "OPENAI_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@dataclass
class Gateway:
    """`pepper serve` in a process. Usable again and again: `start`, `kill`, `terminate`, `restart`.

    Calls and looks into the stores need `async with gateway.connected()` (the fixtures do it).
    """

    stores: Stores
    fakes: Fakes
    workers: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="pepper-e2e-")))
    port: int = field(default_factory=find_free_port)
    working_folder: Path = REPOSITORY

    def __post_init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.log_file = self.folder / "log"
        self.clock_file = self.folder / "clock"
        self._client: httpx.AsyncClient | None = None
        self._desk: Desk | None = None

    # --- the process ------------------------------------------------------------------------------------------------

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def variables(self) -> dict[str, str]:
        """The environment of the server, and of commands for it."""
        own = {name: value for name, value in os.environ.items() if not name.upper().startswith(_FOREIGN)}
        return {
            **own,
            "PEPPER_DATA": str(self.data),
            "PEPPER_SECRET": SECRET,
            "PEPPER_CLOCK_FILE": str(self.clock_file),  # the machine's time until a test writes it
            "PEPPER_LOG": "json",
            **self.stores.environment,
            **self.fakes.environment,
            **self.environment,
        }

    def start(self, *, ready: bool = True) -> None:
        """Return once it answers (and, with `ready`, its stores do)."""
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "gateway.cli", "serve"),
                    *("--host", LOOPBACK, "--port", str(self.port), "--workers", str(self.workers)),
                ],
                env=self.variables(),
                cwd=self.working_folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        path = "/stato.php?pronto=1" if ready else "/stato.php"
        until = time.monotonic() + START_SECONDS
        with httpx.Client(base_url=self.address, timeout=5) as client:
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if client.get(path).status_code == 200:
                        return
                if self.process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the server did not start\n{self.log()[-4000:]}")
                time.sleep(0.02)

    def terminate(self, *, seconds: float = STOP_SECONDS) -> int:
        """SIGTERM, and its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """SIGKILL, as when memory runs out: the workers go with the server."""
        if self.process is None or self.process.poll() is not None:
            return
        workers = self.worker_pids()
        self.process.kill()
        self.process.wait()
        until = time.monotonic() + STOP_SECONDS
        while any(lives(pid) for pid in workers):
            if time.monotonic() > until:
                raise RuntimeError("workers outlive the server")
            time.sleep(0.01)

    def restart(self) -> None:
        self.kill()
        self.start()

    def worker_pids(self) -> list[int]:
        """The processes that answer."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children if b"resource_tracker" not in command_line(int(pid))]

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def complaints(self) -> list[str]:
        """What the log says of the gateway's own faults; the driver's words on a lost connection are none."""
        lines = self.log().splitlines()
        return [
            line
            for line in lines
            if ("Traceback" in line or '"level":"error"' in line) and '"logger":"sqlalchemy.pool' not in line
        ]

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `pepper ARGUMENTS` beside the server."""
        return subprocess.run(
            [sys.executable, "-m", "gateway.cli", *arguments],
            env=self.variables(),
            cwd=self.working_folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def set_clock(self, instant: datetime) -> None:
        """Move business time; whole, because the server may read at any moment."""
        fresh = self.clock_file.with_suffix(".new")
        fresh.write_text(instant.isoformat())
        fresh.rename(self.clock_file)

    def free_clock(self) -> None:
        self.clock_file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGCONT)
            self.kill()

    # --- calls ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Self]:
        """Within one event loop: a client of the server and a way into its stores."""
        unbounded = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        async with (
            httpx.AsyncClient(base_url=self.address, timeout=CALL_SECONDS, limits=unbounded) as client,
            Desk.opened(self.data, self.stores.database_url, SECRET.encode()) as desk,
        ):
            self._client, self._desk = client, desk
            yield self
        self._client = self._desk = None

    @property
    def client(self) -> httpx.AsyncClient:
        assert self._client is not None
        return self._client

    @property
    def desk(self) -> Desk:
        assert self._desk is not None
        return self._desk

    async def ask(
        self,
        tenant: Tenant,
        content: str = "Ciao, come va?",
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> httpx.Response:
        """One call of `/api.php`; `key` is an Idempotency-Key."""
        body = {"progetto": tenant.name, "encode": "libero", "contenuto": content, **fields}
        return await self.client.post("/api.php", json=body, headers=self.headers(tenant, key, headers))

    @asynccontextmanager
    async def stream(
        self, tenant: Tenant, content: str = "Ciao, come va?", *, key: str | None = None, **fields: Any
    ) -> AsyncIterator[Stream]:
        """A call of `/api.php` with `stream`; leaving the block early hangs up."""
        body = {"progetto": tenant.name, "encode": "libero", "contenuto": content, "stream": True, **fields}
        async with self.client.stream(
            "POST", "/api.php", json=body, headers=self.headers(tenant, key)
        ) as response:
            yield Stream(response)

    def headers(
        self, tenant: Tenant, key: str | None = None, more: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        found = {"x-pepper-key": tenant.key}
        if key is not None:
            found["idempotency-key"] = key
        return found | dict(more or {})

    async def tenant_of_its_own(
        self, *, provider: str = "claude", fallback: Fallback | None = None, **settings: Any
    ) -> tuple[Tenant, Brain]:
        """A project with a brain of its own, whose model no other test uses; back once the server knows both.

        What is not a brain's setting (`usd`, `reasoning`, `model`) is the project's.
        """
        own = {name: settings.pop(name) for name in ("usd", "reasoning", "model") if name in settings}
        brain = await self.desk.brain(provider=provider, fallback=fallback, **own)
        self.teach(provider, brain.principal)
        tenant = await self.desk.project(brain=brain.name, **settings)

        async def known(client: httpx.AsyncClient) -> bool:
            response = await client.post(
                "/capacita.php", json={"progetto": tenant.name}, headers=self.headers(tenant)
            )
            return response.status_code == 200 and response.json()["versione"] == brain.name

        await self.everywhere(known)
        return tenant, brain

    async def everywhere(self, condition: Callable[[httpx.AsyncClient], Awaitable[bool]]) -> None:
        """Return when the condition holds on every worker: asked over so many new connections that it is next to
        certain that each got one.
        """

        async def one() -> bool:
            async with httpx.AsyncClient(base_url=self.address, timeout=20) as client:
                return await condition(client)

        async def all_of_them() -> bool:
            asked = 1 if self.workers == 1 else 6 * self.workers
            return all(await asyncio.gather(*(one() for _ in range(asked))))

        await eventually(all_of_them, CHANGE_SECONDS)

    def teach(self, provider: str, model: str) -> None:
        """Make a model exist at the provider."""
        if provider == "claude":
            self.fakes.claude.models[model] = NEWEST
        else:
            self.fakes.openai.models.add(model)

    async def capabilities(self, tenant: Tenant) -> dict[str, Any]:
        response = await self.client.post(
            "/capacita.php", json={"progetto": tenant.name}, headers=self.headers(tenant)
        )
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found
