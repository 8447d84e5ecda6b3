"""Each client, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.drivers import Driver, PhpDriver, PythonDriver
from tests.clients.teller import Teller

CLIENTS = [pytest.param(PhpDriver, marks=pytest.mark.php, id="php"), pytest.param(PythonDriver, id="python")]


@pytest.fixture(params=CLIENTS)
def make_client(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Driver]:
    """Clients of one language: of an address and, if it matters, a project and its key."""

    def make(url: str, **settings: Any) -> Driver:
        driver: Driver = request.param(url, tmp_path, **settings)
        return driver

    return make


@pytest.fixture
def teller() -> Iterator[Teller]:
    with Teller() as server:
        yield server
        server.finished()


@pytest.fixture
def client(make_client: Callable[..., Driver], teller: Teller) -> Driver:
    """A client of the server that says what it is told to."""
    return make_client(teller.url)
