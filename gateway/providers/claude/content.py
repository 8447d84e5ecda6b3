"""The blocks of a streamed message put together again, as they must be sent back to be continued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gateway.providers import failures

if TYPE_CHECKING:
    from gateway.providers.claude.wire import Delta

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class StreamedContent:
    """Takes the parts of one block after the other."""

    def __init__(self) -> None:
        self.blocks: list[dict[str, Any]] = []
        """The blocks that are complete."""
        self._open: dict[str, Any] | None = None
        self._parts: dict[str, list[str]] = {}
        self._input: list[str] = []

    def start(self, raw: msgspec.Raw) -> None:
        """Begin a block, whose shape was checked."""
        self._open = _decode(raw)
        self._parts = {}
        self._input = []

    def add(self, delta: Delta) -> None:
        """Add to the block that was begun last."""
        if self._open is None:
            return
        match delta.type:
            case "text_delta":
                self._append("text", delta.text)
            case "thinking_delta":
                self._append("thinking", delta.thinking)
            case "signature_delta":
                self._append("signature", delta.signature)
            case "input_json_delta":
                self._input.append(delta.partial_json or "")
            case "citations_delta" if delta.citation:
                self._open["citations"] = [*(self._open.get("citations") or ()), delta.citation]
            case _:
                pass

    def stop(self) -> dict[str, Any]:
        """End the block and give it; empty if none was begun.

        Raises:
            ProviderError: It calls a tool with an input that is none.

        """
        block, self._open = self._open, None
        if block is None:
            return {}
        for name, parts in self._parts.items():
            block[name] = str(block.get(name) or "") + "".join(parts)
        if given := "".join(self._input):
            block["input"] = _decoded_input(given.encode())
        self.blocks.append(block)
        return block

    def _append(self, name: str, part: str | None) -> None:
        if part:
            self._parts.setdefault(name, []).append(part)


def sendable(blocks: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Leave out blank texts, which are the one thing that Claude may say and does not take back."""
    return tuple(
        block for block in blocks if block.get("type") != "text" or str(block.get("text") or "").strip()
    )


def whole_content(raws: list[msgspec.Raw]) -> list[dict[str, Any]]:
    """Give the blocks of a message that was not streamed, whose shape was checked."""
    return [_decode(raw) for raw in raws]


def _decoded_input(given: bytes) -> dict[str, Any]:
    try:
        return _decode(given)
    except msgspec.DecodeError:
        pass
    # Raised outside the handler: the decoder's words may quote the input.
    raise failures.faulty("a tool's input that is no JSON object")
