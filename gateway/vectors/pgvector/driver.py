"""The driver's connection as this room names it."""

from __future__ import annotations

from typing import TypeAlias

import asyncpg

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
