"""How Claude's messages must follow one another: first and last turns, tool calls and their results."""

from typing import Any

from tests.fakes.fields import Field
from tests.fakes.seen import RefusalError


def check_turns(messages: Field, *, thinks: bool) -> bool:
    """Checks already well-formed messages; whether the last one is a prefill for the model to go on from."""
    turns = _merged(messages.value)
    if turns[0][0] != "user":
        raise messages.bad('first message must use the "user" role')
    for number, (role, blocks) in enumerate(turns):
        place = f"messages.{number}"
        if role == "user":
            _check_results(place, blocks, turns[number - 1][1] if number else [])
        else:
            _check_searches(place, blocks, last=number == len(turns) - 1)
    _check_all_answered(turns)
    if thinks:
        _check_thinking_kept(turns)
    role, blocks = turns[-1]
    if role == "user":
        return False
    if any(block["type"] == "server_tool_use" for block in blocks):
        # A paused turn is sent back as it came, for the model to go on with it.
        return False
    if blocks[-1]["type"] == "text" and blocks[-1]["text"] != blocks[-1]["text"].rstrip():
        raise RefusalError(400, "messages: final assistant content cannot end with trailing whitespace")
    return True


def _merged(messages: list[Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Consecutive messages of one role are one turn."""
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        if turns and turns[-1][0] == message["role"]:
            turns[-1] = (message["role"], turns[-1][1] + blocks)
        else:
            turns.append((message["role"], blocks))
    return turns


def _ids(blocks: list[dict[str, Any]], kind: str, name: str) -> list[str]:
    return [block[name] for block in blocks if block["type"] == kind]


def _check_results(place: str, blocks: list[dict[str, Any]], before: list[dict[str, Any]]) -> None:
    calls, results = _ids(before, "tool_use", "id"), _ids(blocks, "tool_result", "tool_use_id")
    for result in results:
        if result not in calls:
            raise RefusalError(
                400,
                f"{place}: unexpected `tool_use_id` found in `tool_result` blocks: {result}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message.",
            )
    if len(set(results)) != len(results):
        raise RefusalError(
            400, f"{place}: each tool_use must have a single result. Found multiple `tool_result` blocks"
        )
    # Results that come after other content do not count as following their calls.
    leading = blocks[: len(results)]
    missing = [call for call in calls if call not in _ids(leading, "tool_result", "tool_use_id")]
    if missing:
        raise RefusalError(
            400,
            f"{place}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
            "next message.",
        )


def _check_all_answered(turns: list[tuple[str, list[dict[str, Any]]]]) -> None:
    ids: list[str] = []
    for _, blocks in turns:
        ids += _ids(blocks, "tool_use", "id") + _ids(blocks, "server_tool_use", "id")
    if len(set(ids)) != len(ids):
        raise RefusalError(400, "messages: `tool_use` ids must be unique")
    role, blocks = turns[-1]
    calls = _ids(blocks, "tool_use", "id")
    if role == "assistant" and calls:
        raise RefusalError(
            400,
            f"messages.{len(turns) - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(calls)}.",
        )


def _check_searches(place: str, blocks: list[dict[str, Any]], *, last: bool) -> None:
    results = set(_ids(blocks, "web_search_tool_result", "tool_use_id"))
    calls = _ids(blocks, "server_tool_use", "id")
    for call in calls:
        pending = last and blocks[-1]["type"] == "server_tool_use" and blocks[-1]["id"] == call
        if call not in results and not pending:
            raise RefusalError(
                400,
                f"{place}: `web_search` tool use with id `{call}` was found without a corresponding "
                "`web_search_tool_result` block",
            )
    for result in results - set(calls):
        raise RefusalError(400, f"{place}: unexpected `web_search_tool_result` block for {result}")


def _check_thinking_kept(turns: list[tuple[str, list[dict[str, Any]]]]) -> None:
    """In a tool loop the thinking that led to the calls has to be sent back."""
    if len(turns) < 2 or not _ids(turns[-1][1], "tool_result", "tool_use_id"):
        return
    first = turns[-2][1][0]["type"]
    if first not in ("thinking", "redacted_thinking"):
        raise RefusalError(
            400,
            f"messages.{len(turns) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{first}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.",
        )
