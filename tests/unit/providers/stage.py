"""A provider with its fake behind it, and what came of asking it: for every test about providers."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from itertools import pairwise
from typing import Any

import msgspec

from gateway.domain.calls import ModelCall, Search
from gateway.domain.catalog import Reasoning, Target
from gateway.domain.completion import Citation, Part, Pdf, Shape, Turn
from gateway.domain.events import Finished, Metered, Piece, ProviderEvent, Searched, Searching, Stop
from gateway.domain.usage import Usage
from gateway.ports import Provider, ProviderError, Trouble
from gateway.providers.claude import Claude
from gateway.providers.openai import OpenAI
from gateway.providers.sandbox import Sandbox
from gateway.providers.transport import Transport
from tests.fakes import ClaudeServer, FakeServer, OpenAIServer

MODELS = {"claude": "claude-opus-5", "openai": "gpt-5.5", "prova": "prova"}


def call_of(
    content: str = "Che ore sono?",
    *,
    watched: bool = False,
    shape: Shape | None = None,
    instructions: str = "Rispondi in breve.",
    parameters: str = "",
    before: tuple[Turn, ...] = (),
    answer_tokens: int = 2_000,
    request_id: str = "req_1",
    attachments: tuple[Part, ...] = (),
    cited: bool | None = None,
    search: Search | None = None,
) -> ModelCall:
    return ModelCall(
        request_id=request_id,
        instructions=instructions,
        parameters=parameters,
        turns=(*before, Turn("user", content)),
        attachments=attachments,
        # As the chain says it, unless a test says otherwise.
        cited=any(isinstance(part, Pdf) for part in attachments) and shape is None
        if cited is None
        else cited,
        search=search,
        answer_tokens=answer_tokens,
        shape=shape,
        watched=watched,
    )


def target_of(provider: str, model: str | None = None, reasoning: Reasoning = Reasoning.OFF) -> Target:
    return Target(provider, model or MODELS[provider], "Pepper di prova", reasoning)


class Outcome(msgspec.Struct):
    """All that one attempt told."""

    events: list[ProviderEvent]
    error: ProviderError | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def pieces(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Piece)]

    @property
    def stop(self) -> Stop | None:
        last = self.events[-1] if self.events else None
        return last.stop if isinstance(last, Finished) else None

    @property
    def usage(self) -> Usage:
        """The last count."""
        counts = [event.usage for event in self.events if isinstance(event, Metered | Finished)]
        return counts[-1] if counts else Usage()

    @property
    def citations(self) -> tuple[Citation, ...]:
        last = self.events[-1] if self.events else None
        return last.citations if isinstance(last, Finished) else ()

    @property
    def searches(self) -> list[Searching | Searched]:
        return [event for event in self.events if isinstance(event, Searching | Searched)]

    @property
    def trouble(self) -> Trouble | None:
        return self.error.trouble if self.error else None


async def outcome_of(provider: Provider, call: ModelCall, target: Target) -> Outcome:
    outcome = Outcome([])
    try:
        async with aclosing(provider.stream(call, target)) as events:
            async for event in events:
                outcome.events.append(event)
    except ProviderError as error:
        outcome.error = error
    check_order(outcome)
    return outcome


def check_order(outcome: Outcome) -> None:
    """What the port promises of any sequence: no empty piece, one end, nothing after it, counts that only grow."""
    assert all(outcome.pieces)
    counts = [event.usage for event in outcome.events if isinstance(event, Metered | Finished)]
    for before, after in pairwise(counts):
        assert before.output_tokens <= after.output_tokens
        assert before.total_input <= after.total_input
        assert before.searches <= after.searches
    ends = [isinstance(event, Finished) for event in outcome.events]
    if outcome.error is None:
        assert ends.count(True) == 1
        assert ends[-1]
    else:
        assert True not in ends


class Stage(msgspec.Struct):
    """One provider, asked over the wire."""

    provider: Provider
    server: FakeServer
    transport: Transport

    @property
    def name(self) -> str:
        return self.provider.name

    async def ask(
        self,
        content: str = "Che ore sono?",
        *,
        model: str | None = None,
        reasoning: Reasoning = Reasoning.OFF,
        **how: Any,
    ) -> Outcome:
        call = call_of(content, **how)
        return await outcome_of(self.provider, call, target_of(self.name, model, reasoning))


@asynccontextmanager
async def open_transport() -> AsyncIterator[Transport]:
    transport = Transport()
    await transport.open()
    try:
        yield transport
    finally:
        await transport.aclose()


@asynccontextmanager
async def open_stage(name: str) -> AsyncIterator[Stage]:
    """A provider and its fake, which refused nothing that the test does not know of."""
    async with AsyncExitStack() as held:
        server: FakeServer = held.enter_context(ClaudeServer() if name == "claude" else OpenAIServer())
        transport = await held.enter_async_context(open_transport())
        provider: Provider
        if name == "prova":
            provider = Sandbox()
        elif name == "claude":
            provider = Claude(transport, server.key, server.url)
        else:
            provider = OpenAI(transport, server.key, server.url)
        yield Stage(provider, server, transport)
        assert server.refused == []
