"""The clients in docs/contract.md work: each is run as it stands, against a served sandbox."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs import DOCS
from tests.services import LOOPBACK, find_free_port, require

START_SECONDS = 30.0
RUN_SECONDS = 30.0
WORDS = {
    "TEXT": "La riunione del 3 marzo ha deciso di rifare il tetto.",
    "QUESTION": "Che cosa ha deciso la riunione?",
    "PAUSES": "1, 2, 4",
}
"""What the examples say, for tests to change."""


def _example(language: str) -> str:
    blocks: list[str] = re.findall(
        rf"^```{language}\n(.*?)^```$", (DOCS / "contract.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 1, language
    return blocks[0]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """`pepper serve` on fresh embedded stores: what a client needs in its environment."""
    folder = tmp_path_factory.mktemp("sandbox")
    port = find_free_port()
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PEPPER_", "ANTHROPIC_", "OPENAI_"))
    }
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "gateway.cli", "serve", "--host", LOOPBACK, "--port", str(port)],
            env=own | {"PEPPER_DATA": str(folder / "data")},
            cwd=DOCS.parent,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        url = f"http://{LOOPBACK}:{port}"
        until = time.monotonic() + START_SECONDS
        while not _answers(f"{url}/stato.php?pronto=1"):
            started = server.poll() is None and time.monotonic() < until
            assert started, (folder / "log").read_text()
            time.sleep(0.05)
        key = re.search(r"pk_[\w-]{43}", (folder / "log").read_text())
        assert key
        yield own | {"PEPPER_URL": url, "PEPPER_KEY": key[0]}
    finally:
        server.terminate()
        server.wait(RUN_SECONDS)


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as reply:
        return bool(reply.status == 200)
    return False


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )


def _python(file: Path) -> list[str]:
    return [sys.executable, str(file)]


def _php(file: Path) -> list[str]:
    return [require("php"), str(file)]


def _node(file: Path) -> list[str]:
    program = shutil.which("node")
    if program is None:
        pytest.skip("the JavaScript of docs/contract.md: no node on this machine")
    return [program, str(file)]


@dataclass
class Client:
    """One language's client, to be run with some of its words changed."""

    language: str
    suffix: str
    command: Callable[[Path], list[str]]
    folder: Path
    environment: dict[str, str]

    def run(self, **changes: str) -> subprocess.CompletedProcess[str]:
        """Run it with other words where a change names TEXT, QUESTION or PAUSES."""
        program = _example(self.language)
        for name, words in changes.items():
            assert WORDS[name] in program
            program = program.replace(WORDS[name], words)
        file = self.folder / f"client.{self.suffix}"
        file.write_text(program)
        return _run(self.command(file), self.environment)


@pytest.fixture(
    params=[
        ("python", "py", _python),
        pytest.param(("php", "php", _php), marks=pytest.mark.php),
        ("javascript", "mjs", _node),
    ],
    ids=["python", "php", "javascript"],
)
def client(request: pytest.FixtureRequest, sandbox: dict[str, str], tmp_path: Path) -> Client:
    language, suffix, command = request.param
    return Client(language, suffix, command, tmp_path, sandbox)


def test_a_client_gets_both_answers(client: Client) -> None:
    result = client.run()
    assert result.returncode == 0, result.stdout + result.stderr
    whole, pieces = result.stdout.splitlines()
    assert f"«{WORDS['TEXT']}»" in whole
    assert f"«{WORDS['QUESTION']}»" in pieces


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("troppe_richieste", "troppe_richieste"),  # before the stream
        ("errore_ai", "errore_ai"),  # in the stream
        ("taglio:2", "ai_non_disponibile"),  # after two pieces
    ],
)
def test_a_client_sees_an_error_of_the_stream(client: Client, word: str, code: str) -> None:
    result = client.run(QUESTION=f"[[prova:{word}]] {WORDS['QUESTION']}")
    assert result.returncode != 0
    assert code in result.stdout + result.stderr


def test_a_client_repeats_what_may_be_repeated_and_nothing_else(client: Client) -> None:
    began = time.monotonic()
    result = client.run(TEXT="[[prova:non_autorizzato]]")
    assert result.returncode != 0
    assert "non_autorizzato" in result.stdout + result.stderr
    assert time.monotonic() - began < 7  # the pauses it would make

    began = time.monotonic()
    result = client.run(TEXT="[[prova:errore_ai]]", PAUSES="1")
    assert result.returncode != 0
    assert "errore_ai" in result.stdout + result.stderr
    assert time.monotonic() - began > 1


@pytest.mark.php
def test_the_php_is_php(tmp_path: Path) -> None:
    file = tmp_path / "client.php"
    file.write_text(_example("php"))
    result = _run([require("php"), "-l", str(file)], dict(os.environ))
    assert result.returncode == 0, result.stdout + result.stderr
