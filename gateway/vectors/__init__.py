"""Where passages lie with their vectors: `sqlite` in the data folder, `pgvector` in PostgreSQL."""
