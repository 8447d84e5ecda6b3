"""The first batch of a day, while somebody else writes the day's first row."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql
import pytest
from sqlalchemy import event

from gateway.storage.batch_rows import NoRoom, Opened
from gateway.storage.batches import Batches
from gateway.storage.calls import Calls
from gateway.storage.tenants import Tenants
from tests.unit.storage.stores import ANNA, TODAY, Place, batch, opened, project


@pytest.mark.parametrize(("settled", "found"), [(10, Opened()), (999_500, NoRoom(999_500, alone=False))])
async def test_a_row_that_appears_just_then_is_no_lack_of_room(
    mysql_url: str, tmp_path: Path, settled: int, found: Opened | NoRoom
) -> None:
    parts = urlsplit(mysql_url)
    written: list[str] = []

    def write_first(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        """Another process settles a call between the update that found no row and what follows it."""
        if written or not statement.startswith("UPDATE spending"):
            return
        assert cursor.rowcount == 0
        written.append(statement)
        with closing(
            pymysql.connect(
                host=parts.hostname or "",
                port=parts.port or 0,
                user=parts.username,
                password=parts.password or "",
                database=parts.path[1:],
                autocommit=True,
            )
        ) as other:
            row = "INSERT INTO spending (project, day, settled, batches, reserved) VALUES ('alfa', %s, %s, 0, 0)"
            other.cursor().execute(row, (TODAY, settled))

    async with opened(Place(tmp_path, mysql_url)) as database:
        await Tenants(database).add_project(project("alfa"), ANNA)
        event.listen(database.engine.sync_engine, "after_cursor_execute", write_first)
        wanted = batch("prt_1", reserved=1_000)
        assert await Batches(database).open(wanted, 1_000_000, 20) == found
        held = 1_000 if found == Opened() else 0
        assert written
        assert await Calls(database).spent("alfa", TODAY) == settled + held
