"""The walls: a caller may only speak for the project of its key."""

from __future__ import annotations

from gateway.domain.errors import UNAUTHORIZED, Failure
from gateway.domain.tenants import Caller, Scope


def isolate(caller: Caller, project: str, request_id: str) -> Scope:
    """Give the scope of a call that says it is for `project`.

    Raises:
        Failure: 401, the same for a foreign, a disabled and a missing project.

    """
    if caller.project.name != project or not caller.project.active:
        raise Failure(UNAUTHORIZED)
    return Scope(caller, request_id)
