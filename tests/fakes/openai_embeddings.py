"""`POST /v1/embeddings`: vectors that are the same for the same text and close for texts that share words."""

import base64
import hashlib
import math
import re
import unicodedata
from array import array
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from tests.fakes import tokens
from tests.fakes.behaviours import Answer
from tests.fakes.endpoint import Frame
from tests.fakes.fields import Field
from tests.fakes.json_body import decode_json
from tests.fakes.openai_models import EMBEDDING_DIMENSIONS
from tests.fakes.openai_rules import check_model
from tests.fakes.openai_words import request_field
from tests.fakes.script import say
from tests.fakes.seen import RefusalError, Seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.behaviours import Scripted

_MOST_INPUTS = 2_048
_MOST_TOKENS_EACH = 8_192
_MOST_TOKENS = 300_000
_WORD = re.compile(r"\w+")
# Italian and English words that say nothing about a text.
_STOP_WORDS = frozenset(
    [
        "a",
        "ad",
        "ai",
        "al",
        "alla",
        "alle",
        "allo",
        "anche",
        "che",
        "chi",
        "ci",
        "come",
        "con",
        "da",
        "dal",
        "dalla",
        "dei",
        "del",
        "della",
        "delle",
        "di",
        "e",
        "ed",
        "gli",
        "ha",
        "ho",
        "i",
        "il",
        "in",
        "io",
        "la",
        "le",
        "lo",
        "ma",
        "mi",
        "nei",
        "nel",
        "nella",
        "no",
        "non",
        "o",
        "per",
        "piu",
        "quale",
        "quali",
        "quando",
        "quanti",
        "quanto",
        "se",
        "si",
        "sono",
        "su",
        "sul",
        "sulla",
        "tra",
        "un",
        "una",
        "uno",
        "the",
        "a",
        "an",
        "and",
        "of",
        "to",
        "is",
        "are",
        "in",
        "on",
        "for",
        "it",
    ]
)
_STEM = 5


def vector(text: str, dimensions: int = 1536) -> list[float]:
    """A unit vector: every word, cut to its stem and hashed, pushes one dimension up or down."""
    plain = unicodedata.normalize("NFKD", text.lower())
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    stems = [word[:_STEM] for word in _WORD.findall(plain) if word not in _STOP_WORDS]
    values = [0.0] * dimensions
    for stem in stems:
        digest = hashlib.blake2b(stem.encode(), digest_size=8).digest()
        values[int.from_bytes(digest[:7], "big") % dimensions] += 1.0 if digest[7] & 1 else -1.0
    length = math.sqrt(sum(value * value for value in values))
    if length == 0.0:
        # Nothing but stop words or signs, or words that cancel out: the text as a whole gives the direction.
        digest = hashlib.blake2b(text.encode(), digest_size=7).digest()
        values[int.from_bytes(digest, "big") % dimensions] = length = 1.0
    return [value / length for value in values]


class Embeddings:
    """The endpoint. An `Answer` in its script only lends delays, endings and `input_tokens`."""

    def __init__(self, models: Container[str]) -> None:
        self.default: Scripted = say("")
        self.vector: Callable[[str, int], list[float]] = vector
        self._models = models

    def accept(self, seen: Seen) -> None:
        decode_json(
            seen, "We could not parse the JSON body of your request", "expected content-type application/json"
        )
        parts = request_field(seen.body).object("input model", "dimensions encoding_format user")
        model = parts["model"].text(least=1)
        check_model(model, self._models)
        most = EMBEDDING_DIMENSIONS.get(model)
        if most is None:
            raise RefusalError(403, "You are not allowed to generate embeddings from this model")
        if "encoding_format" in parts:
            parts["encoding_format"].choice(("float", "base64"))
        if "dimensions" in parts:
            if model == "text-embedding-ada-002":
                raise parts["dimensions"].bad(
                    "This model does not support specifying dimensions.", "invalid_value"
                )
            parts["dimensions"].integer(1, most)
        _check_input(parts["input"])

    def streams(self, seen: Seen) -> bool:
        return False

    def dress(self, scripted: Answer, seen: Seen) -> Answer:
        return scripted

    def whole(self, scripted: Answer, seen: Seen) -> bytes:
        body = seen.body
        dimensions = body.get("dimensions", EMBEDDING_DIMENSIONS.get(body["model"], 1536))
        as_floats = body.get("encoding_format", "float") == "float"
        texts = _inputs(body["input"])
        data = []
        for index, text in enumerate(texts):
            values = self.vector(text, dimensions)
            packed: Any = values if as_floats else base64.b64encode(array("f", values).tobytes()).decode()
            data.append({"object": "embedding", "index": index, "embedding": packed})
        used = scripted.input_tokens
        if used is None:
            used = sum(tokens.count(len(text)) for text in texts)
        usage = {"prompt_tokens": used, "total_tokens": used}
        return msgspec.json.encode({"object": "list", "data": data, "model": body["model"], "usage": usage})

    def frames(self, scripted: Answer, seen: Seen) -> Iterator[Frame]:
        yield Frame(self.whole(scripted, seen))


def _check_input(field: Field) -> None:
    if isinstance(field.value, str):
        texts = [field]
    else:
        texts = field.items()
        if not texts or len(texts) > _MOST_INPUTS:
            raise field.bad(f"'$.input' is invalid: expected 1 to {_MOST_INPUTS} inputs", "invalid_value")
    total = 0
    for text in texts:
        if not text.text():
            raise field.bad("'$.input' is invalid. An input cannot be an empty string.", "invalid_value")
        size = tokens.count(len(text.text()))
        if size > _MOST_TOKENS_EACH:
            raise field.bad(
                f"This model's maximum context length is {_MOST_TOKENS_EACH} tokens, however you requested {size} tokens.",
                "context_length_exceeded",
            )
        total += size
    if total > _MOST_TOKENS:
        raise field.bad(
            f"Requested {total} tokens, max {_MOST_TOKENS} tokens per request", "max_tokens_per_request"
        )


def _inputs(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
