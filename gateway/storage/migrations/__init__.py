"""The schema's history, one file a step. A released step is never changed."""
