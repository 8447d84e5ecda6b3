"""The relational store: rows, in one code for SQLite and MySQL. The classes here are the interface."""
