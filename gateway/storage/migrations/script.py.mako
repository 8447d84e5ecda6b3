"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Every statement bears repeating: on MySQL an interrupted migration is run again from its beginning."""
    ${upgrades if upgrades else "pass"}
