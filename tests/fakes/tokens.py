"""Token counts that a test can predict: a quarter of the characters, plus one."""

from typing import Any

# Where text hides in requests of either provider; what is not named here (base64 data, ids) counts nothing.
_TEXT_FIELDS = (
    "system",
    "messages",
    "text",
    "content",
    "thinking",
    "input",
    "arguments",
    "refusal",
    "function",
)


def count(characters: int) -> int:
    """Tokens of so many characters."""
    return characters // 4 + 1


def input_tokens(body: Any) -> int:
    """Tokens of all text in a request."""
    named = {name: body[name] for name in _TEXT_FIELDS if name in body}
    return count(_characters(named))


def _characters(node: Any) -> int:
    if isinstance(node, str):
        return len(node)
    if isinstance(node, list):
        return sum(_characters(item) for item in node)
    if not isinstance(node, dict):
        return 0
    if node.get("type") == "text" and "data" in node:
        return len(node["data"])
    if node.get("type") in ("document", "tool_use", "server_tool_use"):
        return sum(
            _characters(value) for value in (node.get("source"), *dict(node.get("input") or {}).values())
        )
    return sum(_characters(node[name]) for name in _TEXT_FIELDS if name in node) + sum(
        _characters(call) for call in node.get("tool_calls") or []
    )
