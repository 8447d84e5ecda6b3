"""Inside an SDK's process: a client that reaches nobody, and what was sent into it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx2

from gateway.providers.sdk_process import Question, Sent

TIMEOUT = httpx2.Timeout(300.0, connect=5.0)
"""What the SDKs are given, which some tell the provider; the deadlines are the chain's."""


async def observed(
    question: Question, send: Callable[[Question, httpx2.AsyncClient], Awaitable[object]]
) -> Sent:
    """Give the request that `send` has an SDK send through the client it gets."""
    seen: list[httpx2.Request] = []

    def note(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(note), trust_env=False) as nowhere:
        try:
            await send(question, nowhere)
        except httpx2.InvalidURL:
            return Sent(None)
    return Sent(str(seen[0].url), dict(seen[0].headers))
