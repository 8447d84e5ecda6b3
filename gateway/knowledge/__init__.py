"""A project's documents as passages and vectors, and the passages as what is put before a question.

The promise of this room: it is pure. It keeps no rows and opens no store; texts go in, passages and vectors come out.
"""
