"""What `prova` answers: the same call, the same answer, on any machine; pure."""

from __future__ import annotations

import math
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

from gateway.domain.completion import Choice, Fields
from gateway.domain.sandbox import without_triggers
from gateway.domain.usage import Usage
from gateway.providers.sandbox.extras import attached, attachment_tokens
from gateway.providers.shapes import fields_text

if TYPE_CHECKING:
    from gateway.domain.calls import ModelCall
    from gateway.domain.completion import Citation
    from gateway.domain.sandbox import Triggers

CHARACTERS_PER_TOKEN = 4
_QUOTED_WORDS = 12
_LONGEST_QUOTE = 120
_DEFAULT_PIECE_WORDS = 3


def answer_text(call: ModelCall, citations: tuple[Citation, ...]) -> str:
    """Say what was asked: enough to see that recipe, parameters, content, files and conversation have all arrived."""
    content = without_triggers(call.turns[-1].text)
    words = content.split()
    quote = " ".join(words[:_QUOTED_WORDS])
    if len(quote) > _LONGEST_QUOTE or len(words) > _QUOTED_WORDS:
        quote = quote[:_LONGEST_QUOTE].rstrip() + "…"
    recipe = zlib.crc32(call.instructions.encode()) % 10_000
    sentences = [f"Risposta di prova alle istruzioni {recipe:04d}."]
    if words:
        sentences.append(
            f"Il testo comincia con «{quote}» e ha {len(words)} parole e {len(content)} caratteri."
        )
    else:
        sentences.append("Il testo è fatto di sole parole di prova.")
    if call.parameters:
        sentences.append(f"Parametri: {call.parameters}")
    if call.passages:
        sentences.append("Prima del testo ci sono brani dei documenti del progetto.")
    if call.attachments:
        sentences.append(f"Allegati: {attached(call)}.")
    if citations:
        sentences.append(f"Citazioni: {len(citations)}.")
    questions = sum(turn.role == "user" for turn in call.turns)
    if questions > 1:
        sentences.append(f"È la domanda numero {questions} della conversazione.")
    return " ".join(sentences)


def shaped_text(shape: Fields | Choice, content: str) -> str:
    """Give the forced answer a careful reader would: fields written as `nome: valore`, the first category named."""
    content = without_triggers(content)
    if isinstance(shape, Fields):
        return fields_text(_fields(shape, content))
    return _category(shape, content)


def pieces_of(text: str, count: int | None) -> list[str]:
    """Cut a text into so many pieces (by words if no number is asked for); too short a text is made longer."""
    words = text.split(" ")
    if count is None:
        count = math.ceil(len(words) / _DEFAULT_PIECE_WORDS)
    words += [f"({number})" for number in range(len(words) + 1, count + 1)]
    bounds = [len(words) * number // count for number in range(count + 1)]
    pieces = [" ".join(words[start:end]) for start, end in pairwise(bounds)]
    return [pieces[0], *(f" {piece}" for piece in pieces[1:])]


def half_of(pieces: list[str]) -> list[str]:
    """Give the first half of the pieces, or of the only one."""
    if len(pieces) > 1:
        return pieces[: len(pieces) // 2]
    return [pieces[0][: max(1, len(pieces[0]) // 2)]]


def tokens_of(text: str) -> int:
    """Guess how many tokens a text is."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def usage_of(call: ModelCall, answer: str, wanted: Triggers, searches: int = 0) -> Usage:
    """Say what the answer would have consumed, or what the caller wants it to have."""
    if wanted.tokens:
        return Usage(*wanted.tokens, searches=searches)
    asked = (call.instructions, call.parameters, call.passages, *(turn.text for turn in call.turns))
    read = sum(map(tokens_of, asked)) + attachment_tokens(call)
    return Usage(read, tokens_of(answer), searches=searches)


def _fields(shape: Fields, content: str) -> dict[str, str | None]:
    """Find each name before a colon at the beginning of a line, in any case."""
    by_colons: dict[int, dict[str, str]] = {}
    values: dict[str, str | None] = {}
    for name in shape.names:
        colons = name.count(":") + 1
        if colons not in by_colons:
            by_colons[colons] = dict(_named_values(content, colons))
        values[name] = by_colons[colons].get(name.strip().casefold()) or None
    return values


def _named_values(content: str, colons: int) -> list[tuple[str, str]]:
    """Read every line as a name with so many colons, the last of which ends it; the first line with a name counts."""
    found: list[tuple[str, str]] = []
    for line in content.splitlines():
        parts = line.split(":", colons)
        if len(parts) > colons:
            found.append((":".join(parts[:colons]).strip().casefold(), parts[colons].strip()))
    found.reverse()
    return found


def _category(shape: Choice, content: str) -> str:
    lowered = content.casefold()
    for option in shape.options:
        if option.strip().casefold() in lowered:
            return option
    return shape.options[zlib.crc32(content.encode()) % len(shape.options)]
