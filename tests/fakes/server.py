"""A real HTTP server in a thread of its own, on a free loopback port, that plays a provider from a script.

The provider's rules and formats come from its `Endpoint`s and its `Dialect`; this class keeps the queue of
scripted behaviours, remembers what it saw and refused, and notices when a client hangs up.
"""

import asyncio
import re
import sys
import threading
import time
from collections import defaultdict, deque
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web

from tests.fakes.behaviours import Answer, Behaviour, Scripted
from tests.fakes.delivery import Delivery
from tests.fakes.endpoint import Condition, Dialect, Endpoint, Route
from tests.fakes.script import as_behaviour
from tests.fakes.seen import Outcome, RefusalError, Refused, Seen


class FakeServer:
    """Start it with `with`, script it from any thread."""

    def __init__(self, dialect: Dialect, routes: list[Route], *, key: str, port: int = 0) -> None:
        self.key = key
        self.port = port
        self._dialect = dialect
        self._routes = [(method, re.compile(path), endpoint) for method, path, endpoint in routes]
        self._main = routes[0][2]
        self._first_defaults = [(endpoint, endpoint.default) for _, _, endpoint in routes]
        self._lock = threading.Lock()
        self._queues: dict[int, deque[Scripted]] = defaultdict(deque)
        self._seen: list[Seen] = []
        self._refused: list[Refused] = []
        self._peak = 0
        self._open = 0
        self._count = 0
        self._running: dict[asyncio.Task[object], Seen] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._halt: asyncio.Event | None = None

    # What tests use

    @property
    def root(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """What the SDK takes as `base_url`."""
        return self.root

    def script(self, *behaviours: Scripted, on: str | None = None) -> None:
        """Queues behaviours for the next accepted requests, in order.

        `on` is a path other than the main one, with its method where several share the path: "GET /v1/batches".
        """
        endpoint = self._endpoint(on)
        with self._lock:
            self._queues[id(endpoint)].extend(behaviours)

    @property
    def default(self) -> Scripted:
        """What answers when nothing is scripted; may be a function of the request."""
        return self._main.default

    @default.setter
    def default(self, behaviour: Scripted) -> None:
        self._main.default = behaviour

    @property
    def unused(self) -> int:
        """How many scripted behaviours are still waiting."""
        with self._lock:
            return sum(len(queue) for queue in self._queues.values())

    @property
    def seen(self) -> list[Seen]:
        """The requests so far, refused ones included."""
        with self._lock:
            return list(self._seen)

    @property
    def refused(self) -> list[Refused]:
        """Requests the real API would not have accepted. A test's fixture should find this empty."""
        with self._lock:
            return list(self._refused)

    def take_refused(self) -> list[Refused]:
        """`refused`, emptied: for a test that provokes a refusal on purpose."""
        with self._lock:
            taken, self._refused = self._refused, []
            return taken

    @property
    def open(self) -> int:
        """Requests being answered now."""
        return self._open

    @property
    def peak(self) -> int:
        """The most requests that were ever open at once."""
        return self._peak

    def reset(self) -> None:
        """As new: nothing scripted, seen or refused, defaults as they were, open requests dropped."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._drop_all(), self._loop).result(timeout=10)
        with self._lock:
            self._queues.clear()
            self._seen.clear()
            self._refused.clear()
            self._peak = 0
        for endpoint, default in self._first_defaults:
            endpoint.default = default

    def start(self) -> None:
        """Listens; after a `stop` on the same port again."""
        ready: list[BaseException | None] = []
        started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started, ready)), name=type(self).__name__, daemon=True
        )
        self._thread.start()
        started.wait(timeout=10)
        if ready and ready[0] is not None:
            raise ready[0]

    def stop(self) -> None:
        """Drops what is open and refuses connections, like a provider that is gone."""
        if self._loop is not None and self._halt is not None:
            self._loop.call_soon_threadsafe(self._halt.set)
        if self._thread is not None:
            self._thread.join(timeout=10)
        self._thread = self._loop = self._halt = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # In the server's thread

    async def _serve(self, started: threading.Event, ready: list[BaseException | None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._halt = asyncio.Event()
        # Cancelling handlers is how a client that hangs up is noticed at once, whatever the handler waits for.
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", self.port, backlog=2048, reuse_address=True)
            await site.start()
            self.port = runner.addresses[0][1]
        except OSError as error:
            ready.append(error)
            self._loop = None
            return
        finally:
            started.set()
        await self._halt.wait()
        await self._drop_all()
        await runner.cleanup()

    async def _drop_all(self) -> None:
        tasks = list(self._running.items())
        for task, seen in tasks:
            self._end(seen, "cut")
            task.cancel()
        if tasks:
            await asyncio.wait([task for task, _ in tasks], timeout=5)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = self._note(request)
        task = asyncio.current_task()
        assert task is not None
        self._running[task] = seen
        self._open += 1
        self._peak = max(self._peak, self._open)
        try:
            return await self._respond(request, seen)
        except (asyncio.CancelledError, ConnectionResetError):
            self._end(seen, "closed")
            raise
        finally:
            del self._running[task]
            if seen.outcome == "open":
                # A bug in a scripted function or in the fake: answered with 500, and not to be overlooked.
                self._end(seen, "refused")
                self._blame(seen, 500, f"the fake itself failed: {sys.exception()!r}")

    async def _respond(self, request: web.BaseRequest, seen: Seen) -> web.StreamResponse:
        # Read to the end even if too long: a client still sending would not see the refusal.
        body = bytearray()
        async for chunk in request.content.iter_any():
            seen.size += len(chunk)
            if seen.size <= _MOST_KEPT:
                body += chunk
        seen.raw = bytes(body)
        request_id = f"req_{seen.number:012d}"

        def end(outcome: Outcome) -> None:
            self._end(seen, outcome)

        try:
            endpoint, behaviour = self._judge(seen)
        except RefusalError as refusal:
            self._blame(seen, refusal.status, refusal.message)
            delivery = Delivery(request, seen, self._main, self._dialect, request_id=request_id, end=end)
            return await delivery.refuse(refusal)
        seen.behaviour = behaviour
        delivery = Delivery(request, seen, endpoint, self._dialect, request_id=request_id, end=end)
        return await delivery.perform(behaviour)

    def _end(self, seen: Seen, outcome: Outcome) -> None:
        if seen.end(outcome):
            self._open -= 1

    def _blame(self, seen: Seen, status: int, message: str) -> None:
        note = Refused(status=status, message=message, path=seen.path, number=seen.number)
        with self._lock:
            self._refused.append(note)

    def _note(self, request: web.BaseRequest) -> Seen:
        with self._lock:
            self._count += 1
            seen = Seen(
                number=self._count,
                method=request.method,
                path=request.path,
                query=request.query_string,
                headers={name.lower(): value for name, value in request.headers.items()},
            )
            self._seen.append(seen)
        return seen

    def _judge(self, seen: Seen) -> tuple[Endpoint, Behaviour]:
        endpoint = self._route(seen)
        self._dialect.authorise(seen, self.key)
        endpoint.accept(seen)
        with self._lock:
            queue = self._queues[id(endpoint)]
            scripted, by_default = (queue.popleft(), False) if queue else (endpoint.default, True)
        if callable(scripted):
            scripted, by_default = scripted(seen), False
        behaviour = as_behaviour(scripted)
        if isinstance(behaviour, Answer):
            if by_default:
                behaviour = msgspec.structs.replace(behaviour, shaped=True)
            behaviour = endpoint.dress(behaviour, seen)
        return endpoint, behaviour

    def _route(self, seen: Seen) -> Endpoint:
        known = [(method, endpoint) for method, path, endpoint in self._routes if path.fullmatch(seen.path)]
        if not known:
            raise RefusalError(404, "Not Found")
        for method, endpoint in known:
            if method == seen.method:
                return endpoint
        raise RefusalError(405, "Method Not Allowed")

    def _endpoint(self, path: str | None) -> Endpoint:
        if path is None:
            return self._main
        wanted, _, place = path.rpartition(" ")
        for method, pattern, endpoint in self._routes:
            if wanted in ("", method) and pattern.fullmatch(place):
                return endpoint
        raise KeyError(path)


# Above every provider's own limit, so that the rules can tell an oversized request.
_MOST_KEPT = 64 * 1024 * 1024


async def until(condition: Condition, timeout: float = 2.0) -> None:
    """Waits, without blocking the test's own loop, until the condition holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still not so after {timeout} s")
        await asyncio.sleep(0.005)
