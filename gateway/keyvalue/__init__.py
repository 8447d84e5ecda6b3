"""The gate's two implementations: one file on this machine, and Redis."""
