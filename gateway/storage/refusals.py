"""Why the configuration refuses a change: three errors, each with a sentence for the operator."""

from __future__ import annotations


class RefusalError(Exception):
    """The change would break a rule of the configuration; `str()` is a sentence for the operator, in English."""


class DuplicateError(RefusalError):
    """Something of that name exists already."""


class UnknownError(RefusalError):
    """Nothing of that name exists."""
