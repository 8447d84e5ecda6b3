"""Where everything on a card stands.

The promise of this module: whatever a result holds, every element stands inside the card, and no text touches
another. All texts shrink together first; what still doesn't fit is cut with an ellipsis, the summary before the other
options' descriptions, those before labels. Room that is left is spread.
"""

from __future__ import annotations

from typing import Final

from gateway.dilem.card.elements import Block, Box, Place, Scene
from gateway.dilem.card.facts import HEIGHT, WIDTH
from gateway.dilem.card.lines import Paragraphs
from gateway.dilem.card.styles import DENSEST, LIMITS, STEP, Limits, Style, Styles, styles
from gateway.dilem.card.texts import OptionTexts, Texts

LEFT: Final = 88
COLUMN: Final = Place(LEFT, WIDTH - 2 * LEFT)
PANEL_LEFT: Final = 40
PANEL_RADIUS: Final = 44
TOP: Final = 136
BOTTOM: Final = HEIGHT - 122
"""The body stands between these: the panel, the summary, the options."""
SHARE_GAP: Final = 28

_HEAD, _FOOT = 50, HEIGHT - 88
_MARK: Final = (34, 23, 13)
_WORDMARK: Final = Style(38, 1.36, "ink")
_ASIDE: Final = Style(25, 1.4, "quiet")


def lay_out(texts: Texts) -> Scene:
    """Place everything."""
    for limits in LIMITS:
        for hundredths in range(limits.largest, DENSEST - 1, -STEP):
            body = _Body(texts, styles(hundredths), limits)
            if body.fits:
                scene = _frame(texts)
                body.put(scene)
                return scene
    raise AssertionError("the densest card is too high")  # pragma: no cover - tests try the longest texts


class _Body:
    """The chosen option's panel, the summary and the other options, at one size and within some limits."""

    def __init__(self, texts: Texts, at: Styles, limits: Limits) -> None:
        self._at = at
        self._limits = limits
        self._whole = True
        self._kicker = Block()
        self._kicker.write(texts.recommended, at.kicker, COLUMN)
        self._chosen = self._choice(texts.chosen)
        self._bar = self._bar_of_choice(texts.chosen)
        self._heading = Block()
        self._heading.write(texts.others_heading, at.heading, COLUMN)
        self._rows: list[Block] = []
        self._summary = Block()
        self.fits = self._options_fit(texts.others) and self._summary_fits(texts)

    def put(self, scene: Scene) -> None:
        """Add it to a card, with what room is left spread over its distances."""
        at, spare = self._at, self._spare
        rows = len(self._rows)
        row_gap = min(at.row_gap // 2, spare * 3 // 10 // rows)
        spare -= row_gap * rows
        gap = min(at.gap // 2, spare // 6)
        spare -= gap * 2
        padding = min(at.padding // 3, spare // 8)
        spare -= padding * 2
        # What is left makes the panel a poster.
        inner = at.gap + spare // 2

        y = TOP + at.padding + padding
        y = self._kicker.put(scene, y) + inner - at.gap + at.near * 2
        y = self._chosen.put(scene, y) + inner
        y = self._bar.put(scene, y) + at.padding + padding
        panel = Box(
            x=PANEL_LEFT,
            y=TOP,
            width=WIDTH - 2 * PANEL_LEFT,
            height=y - TOP,
            radius=PANEL_RADIUS,
            color="hero",
        )
        scene.boxes.insert(0, panel)
        y += at.gap + gap
        if self._summary.height:
            y = self._summary.put(scene, y) + at.gap + gap
        y = self._heading.put(scene, y) + at.near
        for row in self._rows:
            y = row.put(scene, y) + at.row_gap + row_gap

    @property
    def _spare(self) -> int:
        at = self._at
        panel = (
            2 * at.padding
            + self._kicker.height
            + 2 * at.near
            + self._chosen.height
            + at.gap
            + self._bar.height
        )
        summary = self._summary.height + at.gap if self._summary.height else 0
        rows = sum(row.height for row in self._rows) + at.row_gap * (len(self._rows) - 1)
        others = self._heading.height + at.near + rows
        return BOTTOM - TOP - panel - at.gap - summary - others

    def _choice(self, option: OptionTexts) -> Block:
        block = Block()
        self._write(block, option.label, self._at.chosen, COLUMN, self._limits.chosen, even=True)
        if option.description:
            block.skip(self._at.near)
            self._write(block, option.description, self._at.detail, COLUMN, self._limits.detail)
        return block

    def _bar_of_choice(self, option: OptionTexts) -> Block:
        at, block = self._at, Block()
        room = at.share.room()
        bar, share = _with_share(option, at.share)
        block.write_beside(option.share, at.share, share, room.above)
        above = (room.above + room.below - at.thick_bar) // 2
        block.skip(above)
        block.fill(bar, at.thick_bar, "hero_accent", share=option.probability, track="hero_track")
        block.skip(room.above + room.below - at.thick_bar - above)
        return block

    def _row(self, option: OptionTexts) -> Block:
        at, block = self._at, Block()
        label, share = _with_share(option, at.label)
        block.write_beside(option.share, at.label, share, at.label.room(option.label.ink).above)
        self._write(block, option.label, at.label, label, self._limits.label, even=True)
        block.skip(at.near // 2)
        bar = Place(COLUMN.x, COLUMN.width, option.label.right)
        block.fill(bar, at.bar, "accent", share=option.probability, track="track")
        if option.description and self._limits.description:
            block.skip(at.near // 2)
            self._write(block, option.description, at.description, COLUMN, self._limits.description)
        return block

    def _options_fit(self, options: tuple[OptionTexts, ...]) -> bool:
        """Write the options, as long as they fit."""
        for option in options:
            self._rows.append(self._row(option))
            if self._spare < 0 or not (self._whole or self._limits.cuts):
                return False
        return True

    def _summary_fits(self, texts: Texts) -> bool:
        """Write as much of the summary as there is room for, and tell whether that will do."""
        at, least = self._at, self._limits.summary
        if not texts.summary:
            return True
        room = self._spare - at.gap - sum(at.heading.room()) - at.near // 2
        most = room // sum(at.summary.room(texts.summary.ink))
        if most < 1:
            return False
        self._summary.write(texts.summary_heading, at.heading, COLUMN)
        self._summary.skip(at.near // 2)
        lines, whole = self._write(self._summary, texts.summary, at.summary, COLUMN, most)
        return whole or (least is not None and lines >= least)

    def _write(
        self, block: Block, text: Paragraphs, style: Style, place: Place, most: int, *, even: bool = False
    ) -> tuple[int, bool]:
        lines, whole = text.broken(place.width / style.size, most, even=even)
        for line in lines:
            block.write(line.shaped, style, Place(place.x, place.width, line.right), text.ink)
        self._whole = self._whole and whole
        return len(lines), whole


def _with_share(option: OptionTexts, style: Style) -> tuple[Place, Place]:
    """Give the places of what stands beside an option's weight, and of the weight: the far end for its script."""
    room = round(option.share.width * style.size) + 1
    return Place(COLUMN.x, COLUMN.width, option.label.right).beside(room, SHARE_GAP)


def _frame(texts: Texts) -> Scene:
    """Give what is the same on every card: the mark, the number of options, the note."""
    scene = Scene([], [])
    for number, width in enumerate(_MARK):
        y = _HEAD + 10 + number * 13
        scene.boxes.append(Box(x=LEFT, y=y, width=width, height=8, radius=4, color="accent"))
    head, foot = Block(), Block()
    baseline = _WORDMARK.room().above
    head.write_beside(texts.wordmark, _WORDMARK, Place(LEFT + 50, 200), baseline)
    head.write_beside(texts.compared, _ASIDE, Place(LEFT + 300, COLUMN.width - 300, True), baseline)
    head.put(scene, _HEAD)
    foot.write(texts.note, _ASIDE, COLUMN)
    foot.put(scene, _FOOT)
    return scene
