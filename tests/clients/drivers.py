"""Both clients behind one door: a test makes calls, and sees what became of each."""

from __future__ import annotations

import base64
import importlib.util
import json
import subprocess
import sys
import tempfile
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from typing_extensions import override

from tests.docs import DOCS
from tests.services import require

PHP_CLIENT = DOCS / "client" / "pepper-client.php"
PYTHON_CLIENT = DOCS / "client" / "pepper_client.py"
PROJECT = "negozio"
KEY = "pk_a-secret-that-no-text-may-tell"
RUN_SECONDS = 100


@dataclass(frozen=True)
class Call:
    """A call in the words of the PHP client."""

    function: str
    arguments: dict[str, Any]
    pieces: bool = False
    stops: bool = False
    """The caller's function throws at the first piece."""


def ask(
    content: str | bytes = "Che ore sono?", *, pieces: bool = False, stops: bool = False, **more: Any
) -> Call:
    return Call("pepper", {"encode": "libero", "contenuto": content, **more}, pieces, stops)


@dataclass(frozen=True)
class Outcome:
    """What became of a call: a value, or an error of the client's own type, or the caller's own exception."""

    value: Any = None
    pieces: list[str] = field(default_factory=list)
    code: str | None = None
    retryable: bool = False
    status: int = 0
    retry_after: float | None = None
    request_id: str | None = None
    idempotency_key: str | None = None
    text: str = ""
    stopped: str | None = None


@dataclass
class Settings:
    """What a test makes smaller, in both clients."""

    pauses: Sequence[float] = (0.01, 0.02, 0.03)
    seconds: int = 30
    silence: int = 20
    attached_bytes: int = 20 * 1024 * 1024


@dataclass
class Driver(ABC):
    """A client of one language."""

    url: str
    folder: Path
    project: str = PROJECT
    key: str = KEY
    settings: Settings = field(default_factory=Settings)

    @property
    def temporary(self) -> Path:
        """Where the client finds the system's temporary folder."""
        return self.folder / "temporary"

    def run(self, *calls: Call) -> list[Outcome]:
        """Make the calls, one after the other, in a process of their own; no word of theirs may tell the key."""
        self.temporary.mkdir(exist_ok=True)
        outcomes = self._run(calls)
        assert len(outcomes) == len(calls)
        for outcome in outcomes:
            assert self.key not in outcome.text
            assert outcome.code is None or f"({outcome.code})" in outcome.text
        return outcomes

    def one(self, call: Call) -> Outcome:
        return self.run(call)[0]

    def value(self, call: Call) -> Any:
        """What a call gives that must succeed."""
        outcome = self.one(call)
        assert outcome.code is None, outcome
        return outcome.value

    def error(self, call: Call) -> Outcome:
        """What a call ends with that must fail."""
        outcome = self.one(call)
        assert outcome.code is not None, outcome
        return outcome

    @abstractmethod
    def _run(self, calls: Sequence[Call]) -> list[Outcome]: ...


class PhpDriver(Driver):
    @override
    def _run(self, calls: Sequence[Call]) -> list[Outcome]:
        constants = {"PEPPER_URL": self.url, "PEPPER_PROGETTO": self.project, "PEPPER_KEY": self.key}
        result = self.process(constants, calls)
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stderr == ""  # not even a notice
        return [Outcome(**json.loads(line)) for line in result.stdout.splitlines()]

    def process(self, constants: dict[str, Any], calls: Sequence[Call]) -> subprocess.CompletedProcess[str]:
        """Run the calls with any constants."""
        work = {
            "constants": constants,
            "client": str(self._client()),
            "calls": [
                {
                    "function": call.function,
                    "arguments": {name: _portable(value) for name, value in call.arguments.items()},
                    "pieces": call.pieces,
                    "stops": call.stops,
                }
                for call in calls
            ],
        }
        return subprocess.run(
            [
                require("php"),
                *("-d", "error_reporting=-1", "-d", "display_errors=stderr", "-d", "log_errors=0"),
                *("-d", f"sys_temp_dir={self.temporary}", "-d", "zend.exception_ignore_args=0"),
                str(Path(__file__).with_name("driver.php")),
            ],
            input=json.dumps(work),
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )

    def _client(self) -> Path:
        """The client with the test's settings in place of its own."""
        own = self.settings
        program = PHP_CLIENT.read_text()
        for before, after in {
            "const ATTESE = [1.0, 2.0, 4.0];": f"const ATTESE = {list(own.pauses)};",
            "const SECONDI = 300;": f"const SECONDI = {own.seconds};",
            "const SECONDI_SILENZIO = 60;": f"const SECONDI_SILENZIO = {own.silence};",
            "const BYTE_MASSIMI = 20 * 1024 * 1024;": f"const BYTE_MASSIMI = {own.attached_bytes};",
        }.items():
            assert program.count(before) == 1, before
            program = program.replace(before, after)
        file = self.folder / "client.php"
        file.write_text(program)
        return file


class PythonDriver(Driver):
    @override
    def _run(self, calls: Sequence[Call]) -> list[Outcome]:
        module = load()
        own = self.settings
        for name, (before, after) in {
            "PAUSES": ((1.0, 2.0, 4.0), tuple(own.pauses)),
            "CALL_SECONDS": (300.0, own.seconds),
            "SILENCE_SECONDS": (60.0, own.silence),
            "ATTACHED_BYTES": (20 * 1024 * 1024, own.attached_bytes),
        }.items():
            assert getattr(module, name) == before
            setattr(module, name, after)
        tempdir, tempfile.tempdir = tempfile.tempdir, str(self.temporary)
        try:
            with module.Pepper(self.url, self.project, self.key) as pepper:
                return [_made(module, pepper, call) for call in calls]
        finally:
            tempfile.tempdir = tempdir


def load() -> ModuleType:
    """The Python client as a module of its own."""
    spec = importlib.util.spec_from_file_location("pepper_client", PYTHON_CLIENT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pepper_client"] = module
    spec.loader.exec_module(module)
    return module


class EnoughError(Exception):
    """The caller's own."""


_METHODS = {
    "pepper": "ask",
    "pepper_differito": "defer",
    "pepper_pratica": "collect",
    "pepper_capacita": "capabilities",
    "pepper_conoscenza_carica": "add_knowledge",
    "pepper_conoscenza_elenco": "list_knowledge",
    "pepper_conoscenza_togli": "remove_knowledge",
}
_NAMES = {
    "encode": "recipe",
    "contenuto": "content",
    "contenuti": "contents",
    "conversazione": "conversation",
    "documenti": "documents",
    "idempotenza": "idempotency_key",
    "pratica": "number",
    "aggiorna": "refresh",
    "nome": "name",
    "testo": "text",
    "id": "document",
}


def _made(module: ModuleType, pepper: Any, call: Call) -> Outcome:
    pieces: list[str] = []

    def on_piece(piece: str) -> None:
        pieces.append(piece)
        if call.stops:
            raise EnoughError("enough")

    arguments = {_NAMES.get(name, name): value for name, value in call.arguments.items()}
    if call.pieces:
        arguments["on_piece"] = on_piece
    method: Callable[..., Any] = getattr(pepper, _METHODS[call.function])
    try:
        return Outcome(method(**arguments), pieces)
    except module.PepperError as error:
        return Outcome(
            pieces=pieces,
            code=error.code,
            retryable=error.retryable,
            status=error.status,
            retry_after=error.retry_after,
            request_id=error.request_id,
            idempotency_key=error.idempotency_key,
            text="".join(traceback.format_exception(error)),
        )
    except EnoughError as error:
        return Outcome(pieces=pieces, stopped=str(error))


def _portable(value: Any) -> Any:
    """Bytes have no place in JSON."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value
