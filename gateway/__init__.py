"""Pepper: a multi-tenant gateway between partner projects and language models."""

__version__ = "0.1.0"
