"""What a card is made of: boxes and lines of text, and blocks of them that are put somewhere as a whole."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gateway.dilem.card.palette import Color
from gateway.dilem.card.shaping import Ink, Shaped
from gateway.dilem.card.styles import NO_INK, Style


class Box(Struct, frozen=True, kw_only=True):
    """A rounded rectangle, in pixels from the card's top left."""

    x: int
    y: int
    width: int
    height: int
    radius: int
    color: Color


class Words(Struct, frozen=True, kw_only=True):
    """A line of text, and the place that no ink of it leaves.

    Attributes:
        left: Where its glyphs begin.
        baseline: What they stand on.
        size: Pixels of an em.

    """

    x: int
    y: int
    width: int
    height: int
    left: int
    baseline: int
    size: int
    shaped: Shaped
    color: Color


class Scene(Struct, frozen=True):
    """All that is on a card, from back to front."""

    boxes: list[Box]
    words: list[Words]


class Place(Struct, frozen=True):
    """A width to write or draw in, and at which end of it things begin."""

    x: int
    width: int
    right: bool = False

    def beside(self, taken: int, gap: int) -> tuple[Place, Place]:
        """Give the place that is left beside so much, and the place of that, which is at the far end."""
        rest = self.width - taken - gap
        if self.right:
            return Place(self.x + taken + gap, rest, True), Place(self.x, taken)
        return Place(self.x, rest), Place(self.x + rest + gap, taken, True)


class Block:
    """Elements under each other, from 0 downwards."""

    def __init__(self) -> None:
        self.height = 0
        self._boxes: list[Box] = []
        self._words: list[Words] = []

    def skip(self, pixels: int) -> None:
        """Leave so much room."""
        self.height += pixels

    def write(self, shaped: Shaped, style: Style, place: Place, ink: Ink = NO_INK) -> None:
        """Add a line of text."""
        room = style.room(ink)
        self.write_beside(shaped, style, place, self.height + room.above, ink)
        self.height += room.above + room.below

    def write_beside(
        self, shaped: Shaped, style: Style, place: Place, baseline: int, ink: Ink = NO_INK
    ) -> None:
        """Add a line of text on a baseline, beside what comes next."""
        room = style.room(ink)
        free = round(place.width - shaped.width * style.size)
        self._words.append(
            Words(
                x=place.x,
                y=baseline - room.above,
                width=place.width,
                height=room.above + room.below,
                left=place.x + (free if place.right else 0),
                baseline=baseline,
                size=style.size,
                shaped=shaped,
                color=style.color,
            )
        )

    def fill(self, place: Place, height: int, color: Color, *, share: float, track: Color) -> None:
        """Add a bar, filled by a share of 0 to 1; whatever isn't nothing shows."""
        whole = Box(
            x=place.x, y=self.height, width=place.width, height=height, radius=height // 2, color=track
        )
        self._boxes.append(whole)
        if share > 0:
            width = max(round(place.width * share), height)
            x = place.x + place.width - width if place.right else place.x
            self._boxes.append(replace(whole, x=x, width=width, color=color))
        self.height += height

    def put(self, scene: Scene, y: int) -> int:
        """Add the elements to a scene, that far down, and say where they end."""
        scene.boxes.extend(replace(one, y=one.y + y) for one in self._boxes)
        scene.words.extend(replace(one, y=one.y + y, baseline=one.baseline + y) for one in self._words)
        return y + self.height
