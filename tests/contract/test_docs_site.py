"""The site has every page of docs/, and its Markdown twins lead to one another (deploy/site.py, deploy/site.yml)."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.docs import DOCS

ROOT = DOCS.parent


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_builder", ROOT / "deploy" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_navigation_once() -> None:
    """Decisions come into it by themselves, the changelog from the top of the repository."""
    text = (ROOT / "deploy" / "site.yml").read_text()
    listed = re.findall(r"^ +- ([\w/.-]+\.md)$", text, re.MULTILINE)
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.parent.name != "decisions"]
    assert sorted(listed) == sorted([*pages, "changelog.md"])


def test_the_last_part_takes_the_decisions(builder: ModuleType, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    builder.gather(pages)
    config: Any = builder.configuration(pages, tmp_path / "site")
    [(name, entries)] = config["nav"][-1].items()
    assert name == "For contributors"
    decisions = [path for entry in entries[-1]["Decisions"] for path in entry.values()]
    assert decisions == [f"decisions/{page.name}" for page in sorted((DOCS / "decisions").glob("*.md"))]


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("quick-start.md", "contract.md", "../contract/index.md"),
        ("quick-start.md", "contract.md#cache", "../contract/index.md#cache"),
        ("index.md", "it/contratto.md", "it/contratto/index.md"),
        ("it/contratto.md", "errori.md", "../errori/index.md"),
        ("it/contratto.md", "../recipes.md#the-file", "../../recipes/index.md#the-file"),
        ("clients.md", "client/pepper-client.php", "../client/pepper-client.php"),
        ("decisions/0001-a.md", "../operating.md", "../../operating/index.md"),
        ("contract.md", "index.md", "../index.md"),
        ("contract.md", "#cache", "#cache"),
        ("contract.md", "/docs/llms.txt", "/docs/llms.txt"),
        ("contract.md", "https://example.com/a.md", "https://example.com/a.md"),
    ],
)
def test_links_of_markdown_lead_to_markdown(builder: ModuleType, page: str, link: str, there: str) -> None:
    assert builder.relinked(f"see [it]({link}).", Path(page)) == f"see [it]({there})."
