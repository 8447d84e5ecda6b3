"""A card's texts, cleaned, shaped and in the order they stand on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gateway.dilem.card.fonts import BOLD, MEDIUM, SEMIBOLD, Chain, chains
from gateway.dilem.card.labels import LABELS, WORDMARK, weight
from gateway.dilem.card.lines import Paragraphs
from gateway.dilem.card.plain import plain_line, plain_lines
from gateway.dilem.card.shaping import Shaped, Text
from gateway.dilem.contract import CardOption, CardResult, Language

_HEADING_TRACKING: Final = 0.08


class OptionTexts(Struct, frozen=True, kw_only=True):
    """What is told of one option.

    Attributes:
        probability: 0 to 1, for the bar.
        share: The same in words.

    """

    label: Paragraphs
    description: Paragraphs
    probability: float
    share: Shaped


class Texts(Struct, frozen=True, kw_only=True):
    """All that is written on a card.

    Attributes:
        others: The options that weren't chosen, the weightiest first.

    """

    wordmark: Shaped
    compared: Shaped
    recommended: Shaped
    chosen: OptionTexts
    summary_heading: Shaped
    summary: Paragraphs
    others_heading: Shaped
    others: tuple[OptionTexts, ...]
    note: Shaped


def texts_of(result: CardResult, language: Language) -> Texts:
    """Give what is written on the card of a result."""
    labels = LABELS[language]
    # All of it together says in which language's forms Han characters are drawn.
    by_weight = chains(
        "\n".join((result.summary, *(f"{one.label}\n{one.description}" for one in result.options)))
    )
    medium, semibold, bold = by_weight[MEDIUM], by_weight[SEMIBOLD], by_weight[BOLD]

    def option(one: CardOption, chain: Chain) -> OptionTexts:
        # An id is always visible; a label may hold nothing that is.
        return OptionTexts(
            label=_paragraphs((plain_line(one.label) or one.id,), chain),
            description=_paragraphs(plain_lines(one.description), medium),
            probability=one.probability,
            share=_line(weight(one.probability, labels), bold),
        )

    def heading(words: str) -> Shaped:
        return _line(words.upper(), bold, tracking=_HEADING_TRACKING)

    ranked = sorted(result.options, key=lambda one: -one.probability)
    return Texts(
        wordmark=_line(WORDMARK, bold),
        compared=_line(f"{len(ranked)} {labels.compared}", medium),
        recommended=heading(labels.recommended),
        chosen=next(option(one, bold) for one in ranked if one.id == result.selected),
        summary_heading=heading(labels.summary),
        summary=_paragraphs(plain_lines(result.summary), medium),
        others_heading=heading(labels.others),
        others=tuple(option(one, semibold) for one in ranked if one.id != result.selected),
        note=_line(labels.note, medium),
    )


def _line(text: str, chain: Chain, *, tracking: float = 0.0) -> Shaped:
    shaped = Text(text, chain, tracking=tracking)
    return shaped.shape(0, len(shaped.characters))


def _paragraphs(texts: Sequence[str], chain: Chain) -> Paragraphs:
    return Paragraphs([Text(text, chain) for text in texts])
