"""Anthropic's SDK, loaded only in the process that asks what it sends (see `sdk_process`)."""

from __future__ import annotations

import httpx2
from anthropic import AsyncAnthropic

from gateway.providers import sdk_process
from gateway.providers.observed import TIMEOUT, observed
from gateway.providers.sdk_process import Question, Sent

_PATH = "/v1/messages"


async def _send(question: Question, client: httpx2.AsyncClient) -> object:
    sdk = AsyncAnthropic(
        api_key=question.key,
        base_url=question.base_url,
        max_retries=0,
        timeout=TIMEOUT,
        http_client=client,
        open_telemetry=False,
    )
    return await sdk.post(_PATH, body={}, cast_to=httpx2.Response)


async def observe(question: Question) -> Sent:
    """Give the hot call as the SDK sends it."""
    return await observed(question, _send)


def main() -> None:
    """The process."""
    sdk_process.answer(observe)
