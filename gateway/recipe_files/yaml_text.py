"""The front matter's YAML: plain values only, refused with a place as soon as it holds anything else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

import yaml
from typing_extensions import override
from yaml.events import AliasEvent, CollectionStartEvent, ScalarEvent

if TYPE_CHECKING:
    from collections.abc import Hashable

    from yaml.nodes import MappingNode, Node

MAX_FRONT_MATTER_CHARACTERS: Final = 64_000


class _Loader(yaml.SafeLoader):
    """YAML without what a front matter has no use for: anchors, aliases, tags, dates, depth, a key twice."""

    MAX_DEPTH: ClassVar[int] = 6

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0

    @override
    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, AliasEvent) or event.anchor is not None:
            _refuse("anchors and aliases are not allowed", event.start_mark)
        if isinstance(event, (ScalarEvent, CollectionStartEvent)) and event.tag is not None:
            _refuse("tags are not allowed", event.start_mark)
        if self.depth == self.MAX_DEPTH:
            _refuse("nested too deeply", event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    @override
    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node)
            if not isinstance(key, str):
                _refuse("a key must be text", key_node.start_mark)
            if key in seen:
                _refuse(f"{key} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _refuse(problem: str, mark: Any) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


_Loader.yaml_implicit_resolvers = {}
# Plain words mean what YAML 1.2 says: `no` is a word, 010 no octal; and a number too long is a word too.
for _kind, _pattern, _first in (
    ("null", r"(?:null|~|)\Z", ["n", "~", ""]),
    ("bool", r"(?:true|false)\Z", ["t", "f"]),
    ("int", r"-?(?:0|[1-9][0-9]{0,17})\Z", list("-0123456789")),
    ("float", r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,18}\Z", list("-0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(_pattern), _first)


def load(front: str) -> object:
    """Read YAML.

    Raises:
        ValueError: It is none, or more than a front matter may be.

    """
    if len(front) > MAX_FRONT_MATTER_CHARACTERS:
        raise ValueError(f"the front matter has more than {MAX_FRONT_MATTER_CHARACTERS} characters")
    try:
        loader = _Loader(front)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 2}: " if mark else ""  # counted from 1, after the opening fence
        raise ValueError(f"{line}{error.problem or error.context or 'not YAML'}") from error
    except yaml.YAMLError as error:
        raise ValueError("the front matter holds a character that YAML does not allow") from error
