"""The examples of docs/clients.md are run as they stand, against a served sandbox; its tables are the clients'."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.errors import FAULTS
from tests.clients.drivers import PHP_CLIENT, PYTHON_CLIENT, load
from tests.docs import names, page_text, prose, section
from tests.e2e.enclosed import written_pdf
from tests.e2e.harness import Gateway
from tests.services import require

RUN_SECONDS = 60.0
PAGE = "clients.md"


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page_text(PAGE), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def backend() -> str:
    return "embedded"


@pytest.fixture
async def place(gateway: Gateway, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A partner's folder and environment, with the project `demo` that may do everything."""
    allowed = gateway.command("project", "set", "demo", "--allow", "documenti,immagini,differito,conoscenza")
    assert allowed.returncode == 0, allowed.stderr
    tenant = await gateway.desk.key("demo")

    async def known(client: Any) -> bool:
        reply = await client.post("/capacita.php", json={"progetto": "demo"}, headers=gateway.headers(tenant))
        return reply.status_code == 200 and reply.json()["puo"]["differito"] is True

    await gateway.everywhere(known)
    for file in (PHP_CLIENT, PYTHON_CLIENT):
        shutil.copy(file, tmp_path)
    (tmp_path / "verbale.pdf").write_bytes(written_pdf("Si rifà il tetto."))
    (tmp_path / "temporary").mkdir()
    return tmp_path, os.environ | {
        "PEPPER_URL": gateway.address,
        "PEPPER_KEY": tenant.key,
        "TMPDIR": str(tmp_path / "temporary"),
    }


async def run(place: tuple[Path, dict[str, str]], *command: str) -> str:
    folder, environment = place
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), RUN_SECONDS)
    assert (process.returncode, err.decode()) == (0, ""), (out, err)
    return out.decode()


def check_story(told: str, last: str) -> None:
    """Both languages tell the same."""
    lines = told.splitlines()
    assert "«La riunione del 3 marzo ha deciso di rifare il tetto.»" in lines[0]
    assert lines[1] == "Rossi"
    assert "«Raccontami un tetto.»" in lines[2]
    assert lines[3].startswith("verbale.pdf pag. 1: ")
    assert "«Primo verbale...»" in lines[4]
    assert "«Secondo verbale...»" in lines[5]
    assert lines[6] == last
    assert len(lines) == 7


@pytest.mark.php
async def test_the_php(place: tuple[Path, dict[str, str]]) -> None:
    (program,) = examples("php")
    (place[0] / "esempio.php").write_text(program)
    php = [require("php"), "-d", "display_errors=stderr", "-d", "error_reporting=-1", "esempio.php"]
    check_story(await run(place, *php), "encode_sconosciuto: to be mended")


async def test_the_python(place: tuple[Path, dict[str, str]]) -> None:
    (program,) = examples("python")
    (place[0] / "esempio.py").write_text(program)
    check_story(await run(place, sys.executable, "esempio.py"), "encode_sconosciuto to be mended")


async def test_curl(place: tuple[Path, dict[str, str]]) -> None:
    if shutil.which("curl") is None:
        pytest.skip("the curl of docs/clients.md: no curl on this machine")
    told = {}
    for program in examples("sh"):
        title = program.splitlines()[0].removeprefix("# ")
        told[title] = await run(place, "sh", "-euc", program)
    one, conversation, pieces, repeated, pdf, deferred, capabilities, error = told.values()
    assert json.loads(one)["ok"] is True
    assert json.loads(conversation)["conversazione"].startswith("cnv_")
    assert pieces.startswith("event: delta\n")
    assert "\nevent: done\n" in pieces
    first, second = map(json.loads, repeated.splitlines())
    assert second["meta"]["idempotente"] is True
    assert second["risposta"] == first["risposta"]
    assert json.loads(pdf)["meta"]["citazioni"][0]["documento"] == "verbale.pdf"
    assert json.loads(deferred)["quanti"] == 2
    assert json.loads(capabilities)["puo"]["documenti"] is True
    assert error.startswith("HTTP/1.1 429")


def test_the_functions_are_listed() -> None:
    declared = re.findall(r"^function (pepper\w*)\(", PHP_CLIENT.read_text(), re.MULTILINE)
    listed = [name.partition("(")[0] for name in names(section(page_text(PAGE), "## PHP"))]
    assert listed == declared
    methods = [name for name in vars(load().Pepper) if not name.startswith("_") and name != "close"]
    python = section(page_text(PAGE), "## Python")
    for method in methods:
        assert re.search(rf"\b{method}\b", python), method


def test_the_codes_of_the_clients_are_listed() -> None:
    own = {"configurazione", "nessuna_risposta", "tempo_scaduto", "risposta_interrotta", "risposta_estranea"}
    table = set(re.findall(r"^  \| `([a-z_]+)` \|", page_text(PAGE), re.MULTILINE))
    assert table == own
    for file in (PHP_CLIENT, PYTHON_CLIENT):
        for code in own:
            assert re.search(rf"['\"]{code}['\"]", file.read_text()), (file.name, code)


def test_the_numbers_are_those_of_the_code() -> None:
    module = load()
    pauses = "{:.0f}, {:.0f} and {:.0f}".format(*module.PAUSES)
    for fact in (
        f"{module.CALL_SECONDS:.0f} seconds are over, or a stream was silent for {module.SILENCE_SECONDS:.0f}",
        f"about {pauses} seconds; above {module.LONGEST_PAUSE:.0f} seconds",
        f"more than {module.ATTACHED_BYTES // 2**20} MB together",
    ):
        assert fact in prose(PAGE)
    php = PHP_CLIENT.read_text()
    assert f"ATTESA_MASSIMA = {module.LONGEST_PAUSE:.0f};" in php
    assert f"SECONDI = {module.CAPABILITIES_SECONDS:.0f};" in php
    # Inside a stream there is a code without a status: one that may be either is not asked again.
    sure = {fault.code for fault in FAULTS} - {fault.code for fault in FAULTS if not fault.retryable}
    assert sure == module.RETRYABLE_CODES
    for code in sure:
        assert f"'{code}'" in php
