"""Who calls: projects, their keys, and the scope that everything of a call is read and written in."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum

import msgspec

PROJECT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
DEFAULT_HOURLY_LIMIT = 100
BUILT_IN_PROJECT = "dilem"


class Permission(StrEnum):
    """What a project may do beyond plain calls; everything is off until an operator turns it on."""

    DOCUMENTS = "documenti"
    IMAGES = "immagini"
    DEFERRED = "differito"
    INTERNET = "internet"
    AGENT = "agente"
    KNOWLEDGE = "conoscenza"


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant.

    Attributes:
        hourly_limit: Calls in any 3,600 seconds.
        daily_budget: Cap in micro-dollars for a day, or None for no cap.
        brain: Name of the brain it talks to, or None for the default one.
        domains: The only web domains it may search; empty means any.
        sandbox: Its calls end in the built-in provider `prova` and cost nothing.
        internal: Belongs to the gateway itself: it has no keys and cannot be removed.
        notice_url: Where it is told that deferred work has ended, or None.

    """

    name: str
    active: bool = True
    permissions: frozenset[Permission] = frozenset()
    hourly_limit: int = DEFAULT_HOURLY_LIMIT
    daily_budget: int | None = None
    brain: str | None = None
    domains: tuple[str, ...] = ()
    sandbox: bool = False
    internal: bool = False
    notice_url: str | None = None
    created_at: datetime

    def may(self, permission: Permission) -> bool:
        """Whether the operator turned this permission on."""
        return permission in self.permissions


class ProjectKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as the operator sees it: never the key itself."""

    id: int
    project: str
    label: str
    created_at: datetime
    last_used: datetime | None = None
    revoked_at: datetime | None = None


class Caller(msgspec.Struct, frozen=True):
    """Somebody who proved who they are.

    Attributes:
        project: The tenant they speak for.
        key_id: The key they showed; None when a first-party front door speaks on behalf of the project.
        by: That front door or operator, for the ledger; None for a partner.

    """

    project: Project
    key_id: int | None = None
    by: str | None = None


class Scope(msgspec.Struct, frozen=True):
    """The walls around one call: who calls, under which request id.

    Whatever belongs to a project is read and written with `project.name` in the WHERE clause.
    """

    caller: Caller
    request_id: str

    @property
    def project(self) -> Project:
        """The tenant this call belongs to."""
        return self.caller.project


class Operator(msgspec.Struct, frozen=True):
    """Who changes the configuration: a person of the panel or the command line. Written in the audit."""

    name: str


COMMAND_LINE = Operator("cli")
FIRST_START = Operator("first-start")
