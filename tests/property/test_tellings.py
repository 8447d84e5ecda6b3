"""However a provider tells an answer: whole, in pieces and repeated it is one and the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.bootstrap.serving import build
from gateway.bootstrap.stores import prepare_to_serve
from gateway.core import Core
from gateway.domain.calls import ModelCall
from gateway.domain.catalog import Target
from gateway.domain.completion import Answer, CompletionRequest
from gateway.domain.errors import REFUSED, Failure
from gateway.domain.events import Finished, Metered, Piece, ProviderEvent, ProviderEvents, Stop, Told, collect
from gateway.domain.tenants import Operator, Project, Scope
from gateway.domain.usage import Usage
from gateway.settings import read_settings
from gateway.wire.replies import encode_answer
from gateway.wire.sse import frame_of

PROJECT = "tellings"
_numbers = count()

usages = st.builds(
    Usage, st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**5), st.integers(0, 10**5)
)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@st.composite
def scripts(draw: st.DrawFn) -> list[ProviderEvent]:
    """Events as an adapter may yield them: pieces and metering in any order, one end."""
    middle = st.lists(st.one_of(st.builds(Piece, texts), st.builds(Metered, usages)), max_size=12)
    first = draw(st.builds(Piece, texts))
    end = draw(st.builds(Finished, st.sampled_from(Stop), usages))
    return [*draw(middle), first, *draw(middle), end]


class Scripted:
    """A provider that tells what it is given."""

    name = "claude"
    ready = True

    def __init__(self) -> None:
        self.script: Sequence[ProviderEvent] = ()
        self.asked = 0

    async def stream(self, call: ModelCall, target: Target) -> ProviderEvents:
        assert call.turns
        assert target.model
        self.asked += 1
        for event in self.script:
            await asyncio.sleep(0)
            yield event


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Core, Scripted]]:
    """A whole core on embedded stores, its provider replaced."""
    chosen = read_settings({"PEPPER_DATA": str(folder), "ANTHROPIC_API_KEY": "unused"})
    await prepare_to_serve(chosen, lambda _: None)
    core = build(chosen)
    provider = Scripted()
    chain: Any = core.chain
    chain._providers = {"claude": provider}
    await core.start()
    try:
        yield core, provider
    finally:
        await core.stop()


def _scope(core: Core, project: Project) -> Scope:
    current: Any = core.current
    current.snapshot.projects.setdefault(project.name, project)
    return Scope(core.chain.on_behalf(project.name, Operator("test").name), f"req_{next(_numbers)}")


async def _whole(core: Core, scope: Scope, request: CompletionRequest) -> Answer | str:
    try:
        return await collect(await core.chain.answer(scope, request))
    except Failure as failure:
        return failure.fault.code


async def _pieces(core: Core, scope: Scope, request: CompletionRequest) -> tuple[str, Answer | str]:
    heard = ""
    try:
        async for event in await core.chain.answer(scope, request):
            if isinstance(event, Piece):
                heard += event.text
            elif isinstance(event, Told):
                frame = frame_of(event)
                assert frame.startswith(b"event: done\ndata: ")
                assert frame.count(b"\n") == 3
                assert frame.endswith(encode_answer(event.answer) + b"\n\n")
                return heard, event.answer
    except Failure as failure:
        return heard, failure.fault.code
    raise AssertionError("the events ended without an answer")


def _same(answer: Answer | str) -> object:
    """What two tellings of one script must share."""
    if isinstance(answer, str):
        return answer
    meta = msgspec.structs.replace(answer.meta, duration_ms=0, request_id="", replayed=False)
    return msgspec.structs.replace(answer, meta=meta)


def test_whole_in_pieces_and_repeated_are_one_answer(tmp_path: Path) -> None:
    """One core for all examples; hypothesis calls the inner function."""
    loop = asyncio.new_event_loop()
    stage = running(tmp_path)
    core, provider = loop.run_until_complete(stage.__aenter__())
    project = Project(name=PROJECT, created_at=core.chain._now())

    async def tell(script: list[ProviderEvent]) -> None:
        provider.script, provider.asked = script, 0
        expected = "".join(event.text for event in script if isinstance(event, Piece))
        ended = script[-1]
        assert isinstance(ended, Finished)
        key = f"key-{next(_numbers)}"
        request = CompletionRequest(project=PROJECT, recipe="libero", content="dimmi", fingerprint="f")
        keyed = msgspec.structs.replace(request, idempotency_key=key, stream=True)
        whole = await _whole(core, _scope(core, project), request)
        heard, told = await _pieces(core, _scope(core, project), keyed)
        assert heard == expected
        assert _same(whole) == _same(told)
        if ended.stop is Stop.REFUSED:
            assert whole == REFUSED.code
            return
        assert isinstance(told, Answer)
        assert told.text == expected
        assert told.meta.truncated == (ended.stop is Stop.TRUNCATED)
        asked = provider.asked
        repeated = await _whole(core, _scope(core, project), msgspec.structs.replace(keyed, stream=False))
        heard_again, repeated_in_pieces = await _pieces(core, _scope(core, project), keyed)
        marked = msgspec.structs.replace(told, meta=msgspec.structs.replace(told.meta, replayed=True))
        assert repeated == repeated_in_pieces == marked
        assert heard_again == expected
        assert provider.asked == asked

    @settings(max_examples=60, deadline=None, database=None)
    @given(scripts())
    def examples(script: list[ProviderEvent]) -> None:
        loop.run_until_complete(tell(script))

    try:
        examples()
    finally:
        loop.run_until_complete(stage.__aexit__(None, None, None))
        loop.close()
