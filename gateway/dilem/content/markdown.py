"""Blocks as Markdown, for agents: links whole, members as nested lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gateway.dilem.content.blocks import (
    Block,
    Cards,
    Choices,
    Code,
    Endpoint,
    Link,
    Links,
    Page,
    Prose,
    Row,
    Rows,
    Section,
    Steps,
    Table,
    Tag,
)
from gateway.dilem.content.site import Site

_OWN_LINK = re.compile(r"\]\(/")


class Markdown:
    """Tells pages of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, page: Page, *links: Link) -> str:
        """Tell a whole page; `links` stand at its end."""
        badges = [" · ".join(page.badges)] if page.badges else []
        parts = [f"# {page.title}", page.kicker, self._prose(page.lead), *badges]
        parts.extend(self.blocks(page.blocks))
        parts.extend(map(self.link, links))
        return "\n\n".join(parts) + "\n"

    def blocks(self, blocks: Iterable[Block]) -> Iterator[str]:
        """Tell blocks, a paragraph each."""
        for block in blocks:
            yield from self._block(block)

    def link(self, link: Link) -> str:
        """Tell a link, with its whole address."""
        return f"[{link.text}]({self._whole(link.href)})"

    def _block(self, block: Block) -> Iterator[str]:
        match block:
            case Prose():
                yield self._prose(block.text)
            case Code():
                yield block.label
                yield f"```{block.syntax}\n{block.text}\n```"
            case Steps():
                yield "\n".join(
                    f"{number}. {self._prose(item)}" for number, item in enumerate(block.items, 1)
                )
            case Rows():
                yield "\n".join(self._rows(block.rows, ""))
            case Table():
                yield "\n".join(self._table(block))
            case Cards():
                for card in block.cards:
                    yield f"## {self.link(Link(card.title, card.href))}"
                    yield self._prose(card.text)
            case Links():
                yield " · ".join(map(self.link, block.links))
            case Endpoint():
                yield f"**{block.method} `{block.path}`**"
            case Tag():
                yield f"{block.text}: `{block.code}`" if block.code else block.text
            case Choices():
                for choice in block.choices:
                    yield f"**{choice.title}**"
                    yield from self.blocks(choice.blocks)
            case Section():
                yield self._heading(block)
                yield from self.blocks(block.blocks)

    def _heading(self, section: Section) -> str:
        title = f"`{section.title}`" if section.is_code else section.title
        code = f" `{section.code}`" if section.code else ""
        return f"{'#' * section.level} {title}{code}"

    def _rows(self, rows: Iterable[Row], indent: str) -> Iterator[str]:
        for row in rows:
            need = f" · {row.need}" if row.need else ""
            pattern = f"`{row.pattern}`" if row.pattern else ""
            held = " · ".join(filter(None, (row.note, pattern)))
            said = (f": {self._prose(row.text)} " if row.text else " · ") + held if row.text or held else ""
            yield f"{indent}- `{row.name}` `{row.type}`{need}{said}".rstrip()
            yield from self._rows(row.rows, indent + "  ")

    def _table(self, table: Table) -> Iterator[str]:
        yield _line(table.head)
        yield _line("---" for _ in table.head)
        for row in table.rows:
            yield _line(map(self._prose, row))

    def _prose(self, text: str) -> str:
        return _OWN_LINK.sub(f"]({self._site.base}/", text)

    def _whole(self, href: str) -> str:
        return self._site.url(href) if href.startswith("/") else href


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
