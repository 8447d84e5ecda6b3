"""The colours of the two themes, and which of them stand on which."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from gateway.dilem.contract import Theme

Color: TypeAlias = Literal[
    "page", "ink", "quiet", "accent", "track", "hero", "hero_ink", "hero_quiet", "hero_accent", "hero_track"
]


class Palette(Struct, frozen=True, kw_only=True):
    """The colours of a theme as `#rrggbb`; those of the chosen option's panel begin with `hero`."""

    page: str
    ink: str
    quiet: str
    accent: str
    track: str
    hero: str
    hero_ink: str
    hero_quiet: str
    hero_accent: str
    hero_track: str

    def rgb(self, color: Color) -> tuple[int, int, int]:
        """Give red, green and blue, each 0 to 255."""
        red, green, blue = bytes.fromhex(str(getattr(self, color)).removeprefix("#"))
        return red, green, blue


PALETTES: Final[dict[Theme, Palette]] = {
    "light": Palette(
        page="#f6f3ec",
        ink="#1b2421",
        quiet="#56605b",
        accent="#2b7a66",
        track="#e3ded2",
        hero="#173f36",
        hero_ink="#ffffff",
        hero_quiet="#c5ddd3",
        hero_accent="#8fe0bf",
        hero_track="#2b574c",
    ),
    "dark": Palette(
        page="#101614",
        ink="#eef3f0",
        quiet="#a4b1ab",
        accent="#5fbf9f",
        track="#24302c",
        hero="#cfeadd",
        hero_ink="#0e2a23",
        hero_quiet="#2f5247",
        hero_accent="#17604d",
        hero_track="#b3d6c6",
    ),
}

TEXT_PAIRS: Final[tuple[tuple[Color, Color], ...]] = (
    ("ink", "page"),
    ("quiet", "page"),
    ("accent", "page"),
    ("hero_ink", "hero"),
    ("hero_quiet", "hero"),
    ("hero_accent", "hero"),
)
"""Text on its ground."""
GRAPHIC_PAIRS: Final[tuple[tuple[Color, Color], ...]] = (
    ("accent", "page"),
    ("accent", "track"),
    ("hero", "page"),
    ("hero_accent", "hero"),
    ("hero_accent", "hero_track"),
)
"""Shapes that tell something, on what surrounds them."""
