"""Which OpenAI models exist, and which of them reason (and so take no sampling parameters)."""

import re

_CHAT = (
    "gpt-6-astra gpt-6.2-astra gpt-6.2-sol gpt-6.1-sol gpt-6.1-terra gpt-6-sol gpt-6-luna gpt-5.6-sol gpt-5.6-terra "
    "gpt-5.6-luna gpt-5.5 gpt-5.5-2026-04-23 gpt-5.4 gpt-5.4-mini gpt-5.4-nano gpt-5.4-mini-2026-03-17 "
    "gpt-5.4-nano-2026-03-17 gpt-5.3-chat-latest gpt-5.2 gpt-5.2-2025-12-11 gpt-5.1 gpt-5.1-2025-11-13 gpt-5.1-mini "
    "gpt-5 gpt-5-mini gpt-5-nano gpt-5-2025-08-07 gpt-5-mini-2025-08-07 gpt-5-nano-2025-08-07 o3 o3-2025-04-16 "
    "gpt-4.1 gpt-4.1-mini gpt-4.1-2025-04-14 gpt-4.1-mini-2025-04-14 gpt-4o gpt-4o-mini gpt-4o-2024-11-20 "
    "gpt-4o-2024-08-06 gpt-4o-mini-2024-07-18"
)
_OLD = re.compile(r"gpt-4|gpt-5(\.\d+)?-chat")
EMBEDDING_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


def known_models() -> set[str]:
    """A fresh set, for a server whose tests may add to it; the ones already shut down are not in it."""
    return set(_CHAT.split()) | set(EMBEDDING_DIMENSIONS)


def reasons(model: str) -> bool:
    """Everything since gpt-5 and the o-series reasons, but for the chat variants; unknown names do."""
    return not _OLD.match(model)
