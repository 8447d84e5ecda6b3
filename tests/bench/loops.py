"""The event loop of the bench's own processes: uvloop where it is there, as in the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def run(main: Coroutine[Any, Any, None]) -> None:
    factory = import_module("uvloop").new_event_loop if find_spec("uvloop") else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)
