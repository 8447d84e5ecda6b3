"""All structs that partners meet, described."""

from __future__ import annotations

from gateway.wire.glossary import Wire
from gateway.wire.openapi.answers import ANSWERS
from gateway.wire.openapi.batches import DEFERRED
from gateway.wire.openapi.capabilities import CAPABILITIES
from gateway.wire.openapi.knowledge import KNOWLEDGE
from gateway.wire.openapi.requests import REQUESTS
from gateway.wire.openapi.schemas import Schemas
from gateway.wire.openapi.words import Described

DESCRIBED: dict[type[Wire], Described] = {**REQUESTS, **ANSWERS, **DEFERRED, **CAPABILITIES, **KNOWLEDGE}
SCHEMAS = Schemas(DESCRIBED)
