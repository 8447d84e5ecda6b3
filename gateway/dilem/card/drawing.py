"""A scene into a picture: HarfBuzz draws the glyphs, Pillow lays them on."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from typing import Final

import uharfbuzz as hb
from PIL import Image, ImageDraw

from gateway.dilem.card.elements import Scene, Words
from gateway.dilem.card.facts import HEIGHT, WIDTH
from gateway.dilem.card.palette import Palette
from gateway.dilem.card.shaping import BOX_WIDTH, Glyph

FINE: Final = 64
"""Parts of a pixel that outlines are placed by."""
SMOOTH: Final = 4
"""Parts of a pixel that corners are drawn by."""


def draw(scene: Scene, palette: Palette) -> bytes:
    """Give the scene as a PNG without metadata."""
    image = Image.new("RGB", (WIDTH, HEIGHT), palette.rgb("page"))
    for box in scene.boxes:
        _paste(image, _rounded(box.width, box.height, box.radius), palette.rgb(box.color), (box.x, box.y))
    for words in scene.words:
        _paste(image, _ink(words), palette.rgb(words.color), (words.x, words.y))
    png = BytesIO()
    image.save(png, "png")
    return png.getvalue()


def _paste(image: Image.Image, mask: Image.Image, color: tuple[int, int, int], at: tuple[int, int]) -> None:
    image.paste(color, (*at, at[0] + mask.width, at[1] + mask.height), mask)


def _rounded(width: int, height: int, radius: int, outline: int = 0) -> Image.Image:
    mask = Image.new("L", (width * SMOOTH, height * SMOOTH))
    ImageDraw.Draw(mask).rounded_rectangle(
        (0, 0, mask.width - 1, mask.height - 1),
        radius * SMOOTH,
        fill=0 if outline else 255,
        outline=255,
        width=outline * SMOOTH or 1,
    )
    return mask.reduce(SMOOTH)


def _ink(words: Words) -> Image.Image:
    """Give how much of each pixel of the words' place their glyphs cover."""
    raster = hb.RasterDraw()
    raster.scale_factor = (FINE, FINE)
    start = words.left - words.x
    below = words.y + words.height - words.baseline
    raster.extents = hb.RasterExtents(0, -below, words.width, words.height, 0)
    for glyph in words.shaped.glyphs:
        if glyph.typeface is not None:
            em = words.size * FINE
            scale = em / glyph.typeface.em
            raster.transform = (scale, 0, 0, scale, start * FINE + glyph.x * em, glyph.y * em)
            raster.draw_glyph(glyph.typeface.font, glyph.number)
    drawn = raster.render()
    mask = Image.frombuffer(
        "L", (drawn.extents.width, drawn.extents.height), drawn.buffer, "raw", "L", drawn.extents.stride, -1
    ).copy()
    _boxes(mask, (one for one in words.shaped.glyphs if one.typeface is None), words)
    return mask


def _boxes(mask: Image.Image, glyphs: Iterable[Glyph], words: Words) -> None:
    """Draw what stands for the characters that no font has."""
    size = words.size
    height, width = round(size * 0.72), round(size * (BOX_WIDTH - 0.12))
    for glyph in glyphs:
        x = words.left - words.x + round((glyph.x + 0.06) * size)
        box = _rounded(width, height, max(2, size // 9), max(1, size // 18))
        mask.paste(box, (x, words.baseline - words.y - height))
