"""What an operator may change of a project, a brain or a recipe: only the fields that are set."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gateway.domain.catalog import Fallback, Level, Reasoning
from gateway.domain.tenants import Permission

Noun = TypeVar("Noun", bound=msgspec.Struct)


class ProjectChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New values of a project; what is UNSET stays. Amounts are micro-dollars."""

    active: bool | msgspec.UnsetType = msgspec.UNSET
    permissions: frozenset[Permission] | msgspec.UnsetType = msgspec.UNSET
    hourly_limit: int | msgspec.UnsetType = msgspec.UNSET
    daily_budget: int | msgspec.UnsetType | None = msgspec.UNSET
    brain: str | msgspec.UnsetType | None = msgspec.UNSET
    domains: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    sandbox: bool | msgspec.UnsetType = msgspec.UNSET
    notice_url: str | msgspec.UnsetType | None = msgspec.UNSET


class BrainChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New values of a brain; what is UNSET stays."""

    provider: str | msgspec.UnsetType = msgspec.UNSET
    principal: str | msgspec.UnsetType = msgspec.UNSET
    economy: str | msgspec.UnsetType = msgspec.UNSET
    reasoning: Reasoning | msgspec.UnsetType = msgspec.UNSET
    fallback: Fallback | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType = msgspec.UNSET
    news: str | msgspec.UnsetType = msgspec.UNSET
    voice: bool | msgspec.UnsetType = msgspec.UNSET


class SwitchChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New switches of a recipe; what is UNSET stays, None means as the file says."""

    level: Level | msgspec.UnsetType | None = msgspec.UNSET
    internet: bool | msgspec.UnsetType | None = msgspec.UNSET
    knowledge: bool | msgspec.UnsetType | None = msgspec.UNSET


class RecipeSwitches(msgspec.Struct, frozen=True, kw_only=True):
    """What operators switched on a recipe; None means as the file says."""

    recipe: str
    level: Level | None = None
    internet: bool | None = None
    knowledge: bool | None = None


def changed(noun: Noun, changes: ProjectChanges | BrainChanges | SwitchChanges) -> Noun:
    """Give the noun with the set fields replaced."""
    fields = {name: getattr(changes, name) for name in changes.__struct_fields__}
    return msgspec.structs.replace(noun, **{k: v for k, v in fields.items() if v is not msgspec.UNSET})
