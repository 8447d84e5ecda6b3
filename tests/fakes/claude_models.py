"""What each Claude model accepts, as far as it matters to a request; a new name is as strict as the newest."""

import msgspec

_ALL = frozenset({"low", "medium", "high", "xhigh", "max"})


class ClaudeModel(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are the newest generation: adaptive thinking only, no sampling parameters, no prefill."""

    enabled_thinking: bool = False
    adaptive_thinking: bool = True
    sampling: bool = False
    prefill: bool = False
    efforts: frozenset[str] = _ALL
    programmatic_tools: bool = True
    most_output: int = 128_000


NEWEST = ClaudeModel()
_MIDDLE = ClaudeModel(enabled_thinking=True, sampling=True, efforts=_ALL - {"xhigh"})
_OLDER = ClaudeModel(
    enabled_thinking=True,
    adaptive_thinking=False,
    sampling=True,
    prefill=True,
    efforts=frozenset(),
    most_output=64_000,
)
_OPUS_4_5 = msgspec.structs.replace(_OLDER, efforts=frozenset({"low", "medium", "high"}))
_HAIKU_4_5 = msgspec.structs.replace(_OLDER, programmatic_tools=False)


def known_models() -> dict[str, ClaudeModel]:
    """A fresh table, for a server whose tests may add to it."""
    newest = (
        "claude-fable-5-2 claude-mythos-5-2 claude-haiku-5-5 claude-sonnet-5-5 claude-fable-5-1 claude-opus-5-5 "
        "claude-mythos-5-1 claude-sonnet-5 claude-fable-5 claude-mythos-5 claude-opus-5 claude-opus-4-8 "
        "claude-opus-4-7"
    )
    table = dict.fromkeys(newest.split(), NEWEST)
    table |= {"claude-opus-4-6": _MIDDLE, "claude-sonnet-4-6": _MIDDLE}
    table |= {"claude-sonnet-4-5": _OLDER, "claude-sonnet-4-5-20250929": _OLDER}
    table |= {"claude-opus-4-5": _OPUS_4_5, "claude-opus-4-5-20251101": _OPUS_4_5}
    table |= {"claude-haiku-4-5": _HAIKU_4_5, "claude-haiku-4-5-20251001": _HAIKU_4_5}
    return table
