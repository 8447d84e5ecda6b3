"""Pepper's tests; a package, so that no other package of that name is ever found first."""
