"""A result into a card, in this process and at once; `renderer.py` is for those who have others waiting."""

from __future__ import annotations

from gateway.dilem.card.drawing import draw
from gateway.dilem.card.layout import lay_out
from gateway.dilem.card.palette import PALETTES
from gateway.dilem.card.texts import texts_of
from gateway.dilem.contract import CardResult, Language, Theme


def render_card(result: CardResult, language: Language, theme: Theme) -> bytes:
    """Give the PNG of a card; equal results give equal bytes."""
    return draw(lay_out(texts_of(result, language)), PALETTES[theme])
