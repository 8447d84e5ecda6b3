"""Dilem's pages taken apart: what a strict reader of HTML and a reader of Markdown find in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from typing_extensions import override

_VOID = frozenset({"meta", "link", "img", "br", "hr", "input"})


@dataclass
class Node:
    """An element."""

    tag: str
    attributes: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, tag: str) -> list[Node]:
        found = [self] if self.tag == tag else []
        for child in self.children:
            if isinstance(child, Node):
                found.extend(child.all(tag))
        return found

    def one(self, tag: str) -> Node:
        (found,) = self.all(tag)
        return found

    def with_id(self, anchor: str) -> Node:
        (found,) = (node for node in self.everything() if node.attributes.get("id") == anchor)
        return found

    def everything(self) -> list[Node]:
        found = [self]
        for child in self.children:
            if isinstance(child, Node):
                found.extend(child.everything())
        return found


class _Reader(HTMLParser):
    """Takes no element that is left open or closed twice."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self._open = [self.root]

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"<{tag}> has an attribute twice"
        node = Node(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(node)
        if tag not in _VOID:
            self._open.append(node)

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    @override
    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    @override
    def close(self) -> None:
        super().close()
        assert self._open == [self.root], "an element is left open"


def read_html(text: str) -> Node:
    assert text.startswith("<!doctype html>\n")
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.root.one("html")


def html_blocks(page: Node) -> list[str]:
    return [node.one("code").text for node in page.all("pre")]


def markdown_blocks(text: str) -> list[str]:
    return re.findall(r"^```[a-z]*\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)


def markdown_links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text)


def member_groups(section: Node) -> list[list[tuple[str, str, str, list[str]]]]:
    """The outermost lists of members: of each its name, type, note, and the names of its own members."""
    groups = [node for node in section.all("div") if node.attributes.get("role") == "group"]
    return [[_row(item) for item in _items(group)] for group in groups]


def _items(node: Node) -> list[Node]:
    (rows,) = (child for child in node.children if isinstance(child, Node) and child.tag == "ul")
    return [child for child in rows.children if isinstance(child, Node)]


def _row(item: Node) -> tuple[str, str, str, list[str]]:
    (head,) = (child for child in item.children if isinstance(child, Node) and _is(child, "row-head"))
    name, kind = (node.text for node in head.all("code")[:2])
    inner = [child for child in item.children if isinstance(child, Node) and child.tag == "ul"]
    names = [_row(each)[0] for each in _items(item)] if inner else []
    return name, kind, " ".join(node.text for node in item.children if isinstance(node, Node)), names


def _is(node: Node, name: str) -> bool:
    return name in node.attributes.get("class", "").split()
