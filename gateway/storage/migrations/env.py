"""What alembic runs: migrations on the connection that `gateway.storage.migrate` hands over."""

from __future__ import annotations

from alembic import context

from gateway.storage.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    compare_type=True,
    # SQLite undoes half a migration by itself; MySQL commits each statement, so migrations there must bear repeating.
    transactional_ddl=connection.dialect.name == "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
