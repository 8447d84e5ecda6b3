"""The sandbox's embedder: words and pieces of words, hashed into a vector; no model, no key, no cost.

The promise of this module: the same text gives the same vector on every machine and in every release under the same
name, and texts that share rare words are near each other. It knows no synonyms.
"""

from __future__ import annotations

import asyncio
import functools
import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from gateway.knowledge.texts import beginning
from gateway.knowledge.vectors import Matrix, unit_vectors
from gateway.ports import Embedded

DIMENSIONS = 1_024
MOST_TEXT_BYTES = 8_000
_WORD = re.compile(r"\w+")
_MOST_WORD = 40
_STEM = 5
_PIECE = 3
_WORD_WEIGHT = 0.5
_STEM_WEIGHT = 1.0
_PIECE_WEIGHT = 0.25
_NUMBER_WEIGHT = 1.0
_IN_A_THREAD = 16

STOP_WORDS = frozenset(
    """
    a ad al allo alla ai agli alle all con col coi da dal dallo dalla dai dagli dalle dall di del dello della dei degli
    delle dell d in nel nello nella nei negli nelle nell su sul sullo sulla sui sugli sulle sull per tra fra
    il lo la i gli le l un uno una e ed o od ma se anche come dove quando mentre perche poiche che chi cui non piu
    quale quali quanto quanta quanti quante cosa questo questa questi queste quello quella quelli quelle quel quell
    mio mia miei mie tuo tua tuoi tue suo sua suoi sue nostro nostra nostri nostre vostro vostra vostri vostre loro
    io tu lui lei noi voi mi ti ci vi si ne me te se li
    ho hai ha abbiamo avete hanno avere avuto abbia sono sei siamo siete essere stato stata stati state sia sara
    era erano fu sarebbe
    posso puoi puo possiamo potete possono potrei potere devo devi deve dobbiamo dovete devono dovrei dovere
    voglio vuoi vuole vorrei fare faccio fa fanno fatto viene vengono c quest
    """.split()  # noqa: SIM905 - as a list it would be two hundred lines
)
"""Italian words that say nothing about a text, without accents."""


class LexicalEmbedder:
    """Always ready; its vectors cost nothing."""

    name = "prova:lessicale-1"
    provider = "prova"
    model = "lessicale"
    floor = 0.12
    ready = True

    async def embed_passages(self, texts: Sequence[str]) -> Embedded:
        """Vectors of a document's passages."""
        if len(texts) < _IN_A_THREAD:
            return Embedded(_vectors(texts), 0)
        return Embedded(await asyncio.to_thread(_vectors, texts), 0)

    async def embed_question(self, text: str) -> Embedded:
        """The vector of one question, or of its beginning."""
        return Embedded(_vectors((beginning(text, MOST_TEXT_BYTES),)), 0)


def _vectors(texts: Sequence[str]) -> tuple[bytes, ...]:
    return unit_vectors(word_rows(texts))


def word_rows(texts: Sequence[str]) -> Matrix:
    """A row for each text, of any length but zero."""
    rows = np.zeros((len(texts), DIMENSIONS))
    for row, text in zip(rows, texts, strict=True):
        for word, times in Counter(_words(text)).items():
            often = 1.0 + math.log(times)
            for place, weight in _features(word):
                row[place] += often * weight
        if not row.any():
            # Nothing but stop words, no words at all, or words that cancel out: the text as a whole has one place.
            place, weight = _place(text, 1.0)
            row[place] = weight
    return rows


def _words(text: str) -> Iterator[str]:
    """The words that say something, small and without accents."""
    plain = unicodedata.normalize("NFKD", text.lower())
    plain = "".join([character for character in plain if not unicodedata.combining(character)])
    for match in _WORD.finditer(plain):
        word = match[0][:_MOST_WORD]
        if word not in STOP_WORDS:
            yield word


@functools.lru_cache(maxsize=20_000)
def _features(word: str) -> tuple[tuple[int, float], ...]:
    """Where a word is in the vector, and how much of it: whole, its beginning, and each three letters of it."""
    if not word.isalpha():
        return (_place(f"w{word}", _NUMBER_WEIGHT),)
    features = [_place(f"w{word}", _WORD_WEIGHT), _place(f"s{word[:_STEM]}", _STEM_WEIGHT)]
    edged = f"^{word}$"
    pieces = {edged[start : start + _PIECE] for start in range(len(edged) - _PIECE + 1)}
    features += [_place(f"p{piece}", _PIECE_WEIGHT) for piece in sorted(pieces)]
    return tuple(features)


def _place(feature: str, weight: float) -> tuple[int, float]:
    # Half of all features push the other way, so that those that meet by chance cancel out.
    number = zlib.crc32(feature.encode())
    return number % DIMENSIONS, weight if number & 0x8000_0000 else -weight
