"""The floors and fences of docs/architecture.md hold, and each of them can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ROOMS = [
    "app",
    "bootstrap",
    "chain/__init__",
    "cli/__init__",
    "collector",
    "core",
    "deadline",
    "pipes",
    "domain/__init__",
    "keyvalue/__init__",
    "keyvalue/redis",
    "logs",
    "metrics",
    "ports",
    "providers/__init__",
    "providers/claude/__init__",
    "recipe_files",
    "routes/__init__",
    "routes/exchange",
    "routes/operations",
    "routes/pepper/__init__",
    "routes/responses",
    "settings",
    "storage/__init__",
    "wire/__init__",
    "worker",
]


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            str(ROOT / "pyproject.toml"),
            "--no-cache",
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_house_keeps_its_floors() -> None:
    result = _lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A house of empty rooms, which keeps every contract."""
    for room in ("__init__", *ROOMS):
        _write(tmp_path, room, "")
    return tmp_path


def _write(model: Path, room: str, line: str) -> None:
    path = model / "gateway" / f"{room}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line + "\n")


def test_empty_rooms_break_nothing(model: Path) -> None:
    result = _lint(model)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("room", "line", "contract"),
    [
        ("chain/provide", "import gateway.providers", "Chain"),
        ("chain/answer", "import gateway.wire", "Chain"),
        ("chain/admit", "import gateway.routes", "Floors"),
        ("keyvalue/redis", "import gateway.providers", "Floors"),
        ("keyvalue/redis", "import gateway.settings", "Implementations"),
        ("wire/requests", "import gateway.storage", "Floors"),
        ("wire/requests", "import gateway.settings", "Seams"),
        ("domain/errors", "import gateway.settings", "Floors"),
        ("domain/errors", "import sqlalchemy", "Nouns"),
        ("newroom/__init__", "", "Floors"),
        ("vectors/sqlite", "import gateway.storage", "Implementations"),
        ("dilem/decide", "import gateway.wire", "Dilem"),
        ("app", "import gateway.chain", "App"),
        ("routes/pepper/answers", "import gateway.storage", "Isolation"),
        ("routes/pepper/answers", "import gateway.ports", "Isolation"),
        ("routes/pepper/answers", "import gateway.routes.operations", "Doors"),
        ("routes/newdoor/__init__", "", "Doors"),
        ("chain/provide", "import anthropic", "Fence: anthropic"),
        ("providers/claude/adapter", "import anthropic", "Fence: anthropic"),
        ("providers/transport", "import openai", "Fence: openai"),
        ("keyvalue/sqlite", "import redis", "Fence: redis"),
        ("keyvalue/redis", "import sqlalchemy", "Fence: sqlalchemy"),
        ("vectors/sqlite", "import asyncpg", "Fence: asyncpg"),
        ("cli/serve", "import litestar", "Fence: litestar"),
        ("routes/operations", "import mcp", "Fence: mcp"),
        ("chain/prepare", "import aiosmtplib", "Fence: aiosmtplib"),
        ("chain/prepare", "import pypdf", "Fence: pypdf"),
    ],
)
def test_a_wrong_import_is_seen(model: Path, room: str, line: str, contract: str) -> None:
    _write(model, room, line)
    if "/" in room:
        (model / "gateway" / room).parent.joinpath("__init__.py").touch()
    result = _lint(model)
    assert result.returncode == 1, result.stdout + result.stderr
    broken = [told for told in result.stdout.splitlines() if told.endswith("BROKEN")]
    assert any(told.startswith(contract) for told in broken), result.stdout


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("providers/claude/sdk", "import anthropic"),
        ("providers/openai/sdk", "import openai"),
        ("providers/sandbox", "import pypdf"),
        ("keyvalue/redis", "import redis.asyncio"),
        ("keyvalue/sqlite", "import sqlalchemy"),
        ("vectors/pgvector", "import asyncpg"),
        ("storage/database", "import sqlalchemy.ext.asyncio"),
        ("routes/pepper/answers", "import litestar, gateway.chain, gateway.wire"),
        ("app", "import litestar, gateway.routes, gateway.bootstrap, gateway.core"),
        ("bootstrap", "import gateway.providers, gateway.keyvalue, gateway.settings, gateway.core"),
    ],
)
def test_a_right_import_passes(model: Path, room: str, line: str) -> None:
    _write(model, room, line)
    result = _lint(model)
    assert result.returncode == 0, result.stdout + result.stderr
