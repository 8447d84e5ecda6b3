"""How much a call can cost at most, and how much its input weighs: bounds for the budget, estimates for the rest.

A bound counts one token a byte, which no tokenizer exceeds; an estimate counts three bytes a token.
"""

from __future__ import annotations

import math

import msgspec

from gateway.chain.snapshot import Snapshot
from gateway.domain.calls import Search
from gateway.domain.catalog import Recipe, Target
from gateway.domain.completion import Part, Pdf, Shape, Turn
from gateway.domain.errors import PROVIDER_ERROR, Failure
from gateway.domain.money import micros
from gateway.domain.sandbox import SANDBOX_PROVIDER
from gateway.domain.usage import SEARCH_PRICE

BYTES_PER_TOKEN = 3
OVERHEAD_TOKENS = 1_000
"""What a provider may add around a request: roles, schema, its own system text."""
SHAPE_WEIGHT = 4
"""A forced shape is sent as a schema, with names and descriptions."""
TOKENS_PER_PAGE = 3_000
"""The contract's upper figure for a PDF's page."""
TOKENS_PER_PHOTO = 5_000


class Weight(msgspec.Struct, frozen=True):
    """What a call sends.

    Attributes:
        text_bytes: Bytes of all texts.
        other_tokens: Tokens that no text shows: pages, photos, web pages found, the provider's own.

    """

    text_bytes: int
    other_tokens: int

    @property
    def estimate(self) -> int:
        """Input tokens, probably."""
        return math.ceil(self.text_bytes / BYTES_PER_TOKEN) + self.other_tokens

    @property
    def bound(self) -> int:
        """Input tokens, at most."""
        return self.text_bytes + self.other_tokens + OVERHEAD_TOKENS


def weigh(recipe: Recipe, texts: tuple[str, ...], turns: tuple[Turn, ...], shape: Shape | None) -> int:
    """Bytes of all texts of a call."""
    size = len(recipe.instructions.encode()) + sum(len(text.encode()) for text in texts)
    size += sum(len(turn.text.encode()) for turn in turns)
    return size if shape is None else size + SHAPE_WEIGHT * len(msgspec.json.encode(shape))


def weigh_attachments(parts: tuple[Part, ...], most_pages: int) -> int:
    """Tokens of PDFs and photos; a PDF that only the provider will see is as long as may be."""
    tokens = 0
    for part in parts:
        if isinstance(part, Pdf):
            tokens += TOKENS_PER_PAGE * (part.pages if part.pages is not None else most_pages)
        else:
            tokens += TOKENS_PER_PHOTO
    return tokens


def worst_case(
    snapshot: Snapshot, targets: tuple[Target, ...], weight: Weight, answer_tokens: int, search: Search | None
) -> int:
    """Micro-dollars at most: the dearest target's dearest tier, for all that is sent and may be answered.

    Raises:
        Failure: 502, a target has no price: it can't be used.

    """
    dearest = 0
    for target in targets:
        if target.provider == SANDBOX_PROVIDER:
            continue
        price = snapshot.price(target.provider, target.model)
        if price is None:
            reason = (
                f"model {target.model} has no price: pepper price set {target.model} --input USD --output USD"
            )
            raise Failure(PROVIDER_ERROR, reason=reason)
        dearest = max(dearest, price.worst_case(weight.bound, answer_tokens + target.thinking_tokens))
    if search is not None and dearest:
        dearest += micros(search.most * SEARCH_PRICE)
    return dearest


def input_cost(snapshot: Snapshot, target: Target, weight: Weight) -> int:
    """Micro-dollars of the input alone: what a call whose process died is charged."""
    price = None if target.provider == SANDBOX_PROVIDER else snapshot.price(target.provider, target.model)
    return price.worst_case(weight.estimate, 0) if price else 0
