"""Readers of typed values as parameters of commands, checked before any store is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import click
import msgspec
from typing_extensions import override

Value = TypeVar("Value")


class Parsed(click.ParamType[Value]):
    """A parameter read by a function; a value that isn't typed text (a default) is left as it is."""

    def __init__(self, name: str, read: Callable[[str], Value]) -> None:
        self.name = name
        self._read = read

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Value:
        if not isinstance(value, str):
            return cast("Value", value)
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def or_unset(value: Value | None) -> Value | msgspec.UnsetType:
    """Give what a change takes for an option that was not named."""
    return msgspec.UNSET if value is None else value
